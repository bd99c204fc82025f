/**
 * The transport between simulated engines: notifications and READs that take time and move no bytes. All decisions
 * (gates, holds, streams, claims) are the real connector's. When an engine ends, its READs end too.
 */

import { byGroup } from '../../engine/block-table.ts';
import type { BlockId, BlockIds } from '../../engine/types.ts';
import { ATTEMPTS } from '../../transport/deadlines.ts';
import { emptyResult } from '../../transport/transfer.ts';
import type {
  BlockPair,
  EngineIdentity,
  PeerNotification,
  ReadRequest,
  RemoteAddress,
  ServingTransport,
  TransferResult,
  TransportHandlers,
} from '../../transport/types.ts';
import { type CopyWork, copyWork } from './copy-work.ts';
import type { SimulatedLink, SimulatedNet } from './net.ts';
import type { Arrival } from './wires.ts';

/** How a READ ends that some message of it did not reach whole. */
type Ending = Pick<TransferResult, 'outcome' | 'message'>;

/** The network of all simulated transports. */
export type TransportNet = SimulatedNet<SimulatedTransport>;

export class SimulatedTransport implements ServingTransport {
  readonly identity: EngineIdentity;
  readonly #handlers: Partial<TransportHandlers> = {};
  /** Handlers by peer, for peers that have their own. */
  readonly #ofPeers = new Map<string, Partial<TransportHandlers>>();
  readonly #net: TransportNet;
  readonly #ended = new AbortController();
  /** Called when its engine ends: ends the waits for it. */
  readonly #waiting = new Set<() => void>();

  constructor(identity: EngineIdentity, net: TransportNet) {
    this.identity = identity;
    this.#net = net;
    net.join(this);
  }

  setHandlers(handlers: Partial<TransportHandlers>, peer?: string): void {
    if (peer === undefined) Object.assign(this.#handlers, handlers);
    else this.#ofPeers.set(peer, Object.assign({}, this.handlersFor(peer), handlers));
  }

  handlersFor(peer: string): Partial<TransportHandlers> {
    return this.#ofPeers.get(peer) ?? this.#handlers;
  }

  end(): void {
    this.#ended.abort();
    for (const onEnd of this.#waiting) onEnd();
  }

  async clockOffsetSeconds(): Promise<number> {
    return 0;
  }

  notify(remote: RemoteAddress, notification: PeerNotification): void {
    const { clock, costs, wires } = this.#net.deps;
    const from = this.identity.engineId;
    const arrive = (): void => this.#notified(remote, notification);
    clock.after(costs.messageMs, () => {
      if (!wires) return arrive();
      wires.send(from, remote.engineId, 'notification', (how) => {
        if (how !== 'cut short') arrive();
      });
    });
  }

  #notified(remote: RemoteAddress, notification: PeerNotification): void {
    const { touch, catchUp } = this.#net.deps;
    const node = this.#net.node(remote);
    if (!node) return;
    catchUp(remote.engineId);
    const from = this.identity.engineId;
    node.handlersFor(from).onNotification?.(from, notification);
    touch(remote.engineId);
  }

  async read(request: ReadRequest): Promise<TransferResult> {
    const { counts, deps } = this.#net;
    counts.started++;
    const result = await (request.streamed ? this.#readStream(request) : this.#readHeld(request));
    // What the READ reports is not for a step that has begun.
    deps.catchUp(this.identity.engineId);
    counts.ended++;
    counts.bytes += result.bytes;
    deps.touch(this.identity.engineId);
    return result;
  }

  async #readHeld(request: ReadRequest): Promise<TransferResult> {
    const { remote, remoteRequestId, claim, pairs } = request;
    const { clock, costs, touch, catchUp } = this.#net.deps;
    const begunMs = clock.now();
    await this.#pause(costs.messageMs);
    const lost = await this.#lost(this.identity.engineId, remote.engineId, 'read');
    if (lost) return emptyResult(lost.outcome, lost.message, clock.now() - begunMs);
    const holder = this.#net.node(remote);
    if (!holder) return emptyResult('dead', 'the holder is not there', clock.now() - begunMs);
    catchUp(remote.engineId);
    const own = this.identity.engineId;
    const blockIds = remoteIds(pairs, this.identity.blockBytes);
    const gate = holder.handlersFor(own).gate?.(remoteRequestId, blockIds, claim, own);
    touch(remote.engineId);
    if (!gate?.allow) {
      const { outcome, message } = gate ?? {
        outcome: 'dead' as const,
        message: 'the holder does not answer',
      };
      return emptyResult(outcome, message, clock.now() - begunMs);
    }
    const work = this.#copiesOf(request, this.#bytesOf(pairs), this.#net.deps.varies());
    const arrived = await this.#move(holder, work, true);
    const spoilt = arrived ? await this.#lost(remote.engineId, this.identity.engineId, 'chunk') : null;
    catchUp(remote.engineId);
    gate.finished();
    touch(remote.engineId);
    if (spoilt) return emptyResult(spoilt.outcome, spoilt.message, clock.now() - begunMs);
    if (!arrived) return emptyResult('dead', 'the holder ended', clock.now() - begunMs);
    return this.#done(pairs, 1, clock.now() - begunMs, null);
  }

  async #readStream(request: ReadRequest): Promise<TransferResult> {
    const { remote, remoteRequestId, claim, onChunk } = request;
    // By place in the prompt, over all groups: earlier blocks have their KV first.
    const pairs = request.pairs.toSorted((a, b) => a.remote - b.remote);
    const signal = request.signal!;
    const { clock, costs, touch, catchUp } = this.#net.deps;
    const begunMs = clock.now();
    const wall = () => clock.now() - begunMs;
    await this.#pause(costs.messageMs);
    const lost = await this.#lost(this.identity.engineId, remote.engineId, 'read');
    if (lost) return emptyResult(lost.outcome, lost.message, wall());
    const holder = this.#net.node(remote);
    if (!holder) return emptyResult('dead', 'the holder is not there', wall());
    catchUp(remote.engineId);
    const own = this.identity.engineId;
    const stream = holder.handlersFor(own).streamGate!(remoteRequestId, claim, own);
    touch(remote.engineId);
    const wholeBytes = this.#bytesOf(pairs);
    const varies = this.#net.deps.varies();
    let chunks = 0;
    let movingMs = 0;
    try {
      for (let next = 0; next < pairs.length; chunks++) {
        const stop = AbortSignal.any([signal, holder.#ended.signal]);
        const ready = await stream.ready(pairs[next]!.remote, stop);
        if (holder.#ended.signal.aborted) return emptyResult('dead', 'the holder ended', wall());
        if (ready === null) return emptyResult('failed', 'the reader cancelled it', wall());
        if ('outcome' in ready) return emptyResult(ready.outcome, ready.message, wall());
        const batch = pairs.slice(next).filter((pair) => pair.remote < ready.numBlocks);
        onChunk?.(batch.map((pair) => ({ ...pair, remote: ready.blockIds[pair.group]![pair.remote]! })));
        const fromMs = clock.now();
        // A READ has its fixed time once: its chunks share the whole time by their bytes.
        const bytes = this.#bytesOf(batch);
        const total = this.#copiesOf(request, wholeBytes, varies);
        const share = bytes / wholeBytes;
        const work = { bytes, ms: share * total.ms, fromStepsMs: share * total.fromStepsMs };
        const isLast = next + batch.length === pairs.length;
        if (!(await this.#move(holder, work, isLast))) return emptyResult('dead', 'the holder ended', wall());
        const spoilt = await this.#lost(remote.engineId, this.identity.engineId, 'chunk');
        if (spoilt) return emptyResult(spoilt.outcome, spoilt.message, wall());
        if (ready.revoked.aborted || signal.aborted) continue;
        movingMs += clock.now() - fromMs;
        next += batch.length;
      }
      return this.#done(pairs, chunks, wall(), movingMs);
    } finally {
      catchUp(remote.engineId);
      stream.finished();
      touch(remote.engineId);
    }
  }

  /**
   * Resolves to false if the holder or the reader ended before all bytes arrived. `isLast`: the READ's last chunk, the
   * only one that waits for the link's latency, since chunks follow each other at once.
   */
  #move(holder: SimulatedTransport, { bytes, ms, fromStepsMs }: CopyWork, isLast: boolean): Promise<boolean> {
    const { link, machine } = this.#net.deps;
    const way = link(holder.identity.engineId, this.identity.engineId);
    const arrive = async (): Promise<true> => {
      await this.#device(holder.identity.engineId);
      // The engines' copies and the link overlap, chunk by chunk: the slower of the two counts.
      const linked = way && this.#onLink(way, bytes);
      machine?.interrupt(fromStepsMs);
      await this.#pause(ms);
      if (linked) await linked;
      if (way && isLast && way.latencyMs > 0) await this.#pause(way.latencyMs);
      await this.#device(this.identity.engineId);
      return true;
    };
    return this.#orEnd([this, holder], arrive(), false);
  }

  /** Settles as `promise` does, or resolves to `ended` once one of the engines has ended. */
  #orEnd<T, E>(engines: readonly SimulatedTransport[], promise: Promise<T>, ended: E): Promise<T | E> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        for (const engine of engines) engine.#waiting.delete(onEnd);
      };
      const onEnd = (): void => {
        leave();
        resolve(ended);
      };
      for (const engine of engines) engine.#waiting.add(onEnd);
      promise.then(
        (value) => {
          leave();
          resolve(value);
        },
        (error: unknown) => {
          leave();
          reject(error);
        },
      );
    });
  }

  #copiesOf({ remote, pairs, claim }: ReadRequest, bytes: number, varies: number): CopyWork {
    const total = { blocks: pairs.length, bytes, promptTokens: claim.prompt.numTokens };
    return copyWork({ from: remote.engineId, to: this.identity }, total, varies, this.#net.deps);
  }

  /**
   * Sends a message of a READ. Resolves to null if it arrived whole, otherwise to how the READ ends. A message that does
   * not arrive is sent again after a silence, and one that cannot be read at once, ATTEMPTS times in all; damage is found
   * by the checksum.
   */
  async #lost(from: string, to: string, kind: 'read' | 'chunk'): Promise<Ending | null> {
    const { wires, silenceMs, clock } = this.#net.deps;
    if (!wires) return null;
    const holder = this.#net.node({ engineId: kind === 'read' ? to : from });
    if (!holder) return { outcome: 'dead', message: 'the holder is not there' };
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const silent = new AbortController();
      const received = new Promise<Arrival>((resolve) => {
        wires.send(from, to, kind, resolve);
      });
      const silence = clock.sleep(silenceMs, silent.signal).then(() => null);
      const arrival = await this.#orEnd([this, holder], Promise.race([received, silence]), 'ended');
      silent.abort();
      if (arrival === 'whole') return null;
      if (arrival === 'damaged') return { outcome: 'failed', message: 'a checksum does not match' };
      if (this.#ended.signal.aborted) return { outcome: 'failed', message: 'the reader ended' };
      if (arrival === 'ended') return { outcome: 'dead', message: 'the holder ended' };
    }
    return { outcome: 'failed', message: `no answer after ${ATTEMPTS} attempts` };
  }

  async #device(engineId: string): Promise<void> {
    const busyMs = this.#net.deps.deviceBusyMs(engineId);
    if (busyMs > 0) await this.#pause(busyMs);
  }

  #onLink({ resource }: SimulatedLink, bytes: number): Promise<void> {
    return new Promise((resolve) => {
      resource.begin(bytes, resolve);
    });
  }

  /** Always goes through an event, so that what happens at one moment keeps its order. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#net.deps.clock.after(ms, resolve);
    });
  }

  #bytesOf(pairs: readonly BlockPair[]): number {
    let bytes = 0;
    for (const { group } of pairs) bytes += this.identity.blockBytes[group]!;
    return bytes;
  }

  #done(
    pairs: readonly BlockPair[],
    chunks: number,
    wallMs: number,
    movingMs: number | null,
  ): TransferResult {
    const result = emptyResult('done', '', wallMs);
    result.bytes = this.#bytesOf(pairs);
    result.blocks = pairs.length;
    result.chunks = chunks;
    result.descriptors = pairs.length;
    result.movingMs = movingMs;
    return result;
  }
}

/** The holder's block ids by group. */
function remoteIds(pairs: readonly BlockPair[], groups: readonly unknown[]): BlockIds {
  const ids = byGroup(groups, (): BlockId[] => []);
  for (const { group, remote } of pairs) ids[group]?.push(remote);
  return ids;
}
