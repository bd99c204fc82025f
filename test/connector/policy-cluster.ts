/**
 * P and D with all of their policy code, including both sides of the connector, over a network that only the test drives. KV is
 * copied between KvModels when a READ completes. Messages and READs can be delayed, fail, or outlive their request.
 */
import type { Handover } from '../../src/config/cluster-schema.ts';
import { STORE_ADDRESS } from '../../src/config/connectors.ts';
import type { ConnectorConfig, KvTransferParams } from '../../src/config/kv-transfer.ts';
import { createConnector } from '../../src/connector/registry.ts';
import type { ReaderHolds, StoreUse } from '../../src/connector/types.ts';
import type { EngineRequest, RequestOutput, SamplingParams } from '../../src/engine/types.ts';
import { EngineDeadError, KvferryError } from '../../src/errors.ts';
import type { EngineClient, EngineRole } from '../../src/router/engine-client.ts';
import { OutputStream } from '../../src/router/output-stream.ts';
import { type Turn, turnOutputs } from '../../src/router/turn-outputs.ts';
import type { LowerTier } from '../../src/store/bring-up.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import type { BlockBytes, LowerTiers } from '../../src/store/lower-tiers.ts';
import { StoreService } from '../../src/store/service.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import type {
  EngineIdentity,
  PeerNotification,
  ReadRequest,
  RemoteAddress,
  ServingTransport,
  TransferResult,
  TransportHandlers,
} from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';
import { engineConfig, greedy, KvModel, type Sizes, TestEngine } from '../engine/fakes.ts';
import { type Changes, connectorWith } from './scripted.ts';

/** Everything that was sent and has not arrived. */
export class Net {
  readonly #nodes = new Map<string, PolicyTransport>();
  readonly #underWay: (() => void)[] = [];
  /** Called once per READ; true makes it fail half way. */
  failsNext: () => boolean = () => false;
  /** Called once per notification: how often it arrives. */
  copies: () => number = () => 1;
  blocksMoved = 0;
  /** Number of streamed gathers whose blocks were revoked before they were submitted. */
  revoked = 0;

  join(transport: PolicyTransport): void {
    this.#nodes.set(transport.identity.engineId, transport);
  }

  /** The engine's thread ended: READs from it end, and new ones find no engine. */
  leave(engineId: string): void {
    this.#nodes.get(engineId)?.end();
    this.#nodes.delete(engineId);
    for (const node of this.#nodes.values()) node.handlersFor(engineId).onPeerGone?.(engineId);
  }

  node(remote: RemoteAddress): PolicyTransport | undefined {
    return this.#nodes.get(remote.engineId);
  }

  post(arrive: () => void): void {
    this.#underWay.push(arrive);
  }

  /** Resolves when the test delivers it. */
  arrival(): Promise<void> {
    return new Promise((resolve) => this.post(resolve));
  }

  /** Delivers one of the things on their way; false if there are none. */
  deliver(pick: (count: number) => number = () => 0): boolean {
    if (this.#underWay.length === 0) return false;
    const [arrive] = this.#underWay.splice(pick(this.#underWay.length), 1);
    arrive!();
    return true;
  }
}

export class PolicyTransport implements ServingTransport {
  readonly identity: EngineIdentity;
  readonly kv: { model: KvModel | null } = { model: null };
  readonly #net: Net;
  handlers: Partial<TransportHandlers> = {};
  readonly #ofPeers = new Map<string, Partial<TransportHandlers>>();
  end!: () => void;
  /** Resolves when its thread ends. */
  readonly #ended = new Promise<'ended'>((resolve) => {
    this.end = () => resolve('ended');
  });

  constructor(identity: EngineIdentity, net: Net) {
    this.identity = identity;
    this.#net = net;
    net.join(this);
  }

  setHandlers(handlers: Partial<TransportHandlers>, peer?: string): void {
    if (peer === undefined) this.handlers = { ...this.handlers, ...handlers };
    else this.#ofPeers.set(peer, { ...this.handlersFor(peer), ...handlers });
  }

  handlersFor(peer: string): Partial<TransportHandlers> {
    return this.#ofPeers.get(peer) ?? this.handlers;
  }

  async clockOffsetSeconds(): Promise<number> {
    return 0;
  }

  notify(remote: RemoteAddress, notification: PeerNotification): void {
    const from = this.identity.engineId;
    for (let copies = this.#net.copies(); copies > 0; copies--)
      this.#net.post(() => {
        const node = this.#net.node(remote);
        if (node) node.handlersFor(from).onNotification?.(from, notification);
        else this.handlersFor(remote.engineId).onNotifyFailed?.(remote, notification, 'nobody is there');
      });
  }

  read(request: ReadRequest): Promise<TransferResult> {
    return request.streamed ? this.#readStream(request) : this.#readHeld(request);
  }

  /** One delivery starts the READ. Then, for each batch, one makes the gather copy its blocks, and another brings the bytes. */
  async #readStream({ remote, remoteRequestId, claim, pairs, signal }: ReadRequest): Promise<TransferResult> {
    const holder = this.#net.node(remote);
    await this.#net.arrival();
    if (!holder) return emptyResult('dead', 'nobody is there', 0);
    const stream = holder.handlersFor(this.identity.engineId).streamGate!(
      remoteRequestId,
      claim,
      this.identity.engineId,
    );
    try {
      for (let left = pairs; left.length > 0; ) {
        const next = Math.min(...left.map((pair) => pair.remote));
        const ready = await Promise.race([holder.#ended, stream.ready(next, signal!)]);
        if (ready === 'ended') return emptyResult('dead', 'the holder ended', 0);
        if (ready === null) return emptyResult('failed', 'nobody wants it', 0);
        if ('outcome' in ready) return emptyResult(ready.outcome, ready.message, 0);
        await this.#net.arrival();
        if (ready.revoked.aborted) this.#net.revoked++;
        if (ready.revoked.aborted) continue;
        const batch = left.filter((pair) => pair.remote < ready.numBlocks);
        const bytes = new KvModel(holder.identity.blockSize);
        for (const { group, remote: index } of batch)
          bytes.copyBlock(holder.kv.model!, ready.blockIds[group]![index]!, placeOnTheWay(group, index));
        await this.#net.arrival();
        if (signal!.aborted) continue;
        if (this.#net.failsNext()) return emptyResult('failed', 'the test broke it', 0);
        for (const { group, remote: index, local } of batch)
          this.kv.model!.copyBlock(bytes, placeOnTheWay(group, index), local);
        this.#net.blocksMoved += batch.length;
        left = left.filter((pair) => !batch.includes(pair));
      }
      return this.#moved('done', '', pairs.length);
    } finally {
      stream.finished();
    }
  }

  #readHeld({ remote, remoteRequestId, claim, pairs }: ReadRequest): Promise<TransferResult> {
    const holder = this.#net.node(remote);
    return new Promise((resolve) => {
      this.#net.post(() => {
        const blocks = Array.from({ length: this.identity.blockBytes.length }, (_, group) =>
          pairs.filter((pair) => pair.group === group).map((pair) => pair.remote),
        );
        const gate = holder
          ?.handlersFor(this.identity.engineId)
          .gate?.(remoteRequestId, blocks, claim, this.identity.engineId);
        if (!gate?.allow) {
          resolve(emptyResult(gate?.outcome ?? 'dead', gate?.message ?? 'nobody is there', 0));
          return;
        }
        this.#net.post(() => {
          const fails = this.#net.failsNext();
          const moved = fails ? pairs.slice(0, pairs.length / 2) : pairs;
          for (const { remote: from, local } of moved) {
            this.kv.model!.copyBlock(holder!.kv.model!, from, local);
          }
          this.#net.blocksMoved += moved.length;
          gate.finished();
          resolve(this.#moved(fails ? 'failed' : 'done', fails ? 'the test broke it' : '', moved.length));
        });
      });
    });
  }

  /** The result of a READ that moved this many blocks, each a number per token. */
  #moved(outcome: TransferResult['outcome'], message: string, blocks: number): TransferResult {
    const bytes = blocks * this.identity.blockSize * Float64Array.BYTES_PER_ELEMENT;
    return { ...emptyResult(outcome, message, 0), bytes, blocks };
  }
}

const NO_USE = { blockMs: 0, blocks: 0, peakBlocks: 0, sinceMs: 0, atMs: 0 };
const NO_HOLDS: ReaderHolds = {
  list: () => [],
  dropOldest: () => null,
  release() {},
  use: () => ({ prefill: NO_USE, decode: NO_USE }),
  expireNow: () => 0,
};

/** A unique id for each block. */
const placeOnTheWay = (group: number, index: number): number => 1 + index + 10_000 * group;

export class PolicyNode extends TestEngine implements EngineClient {
  readonly engineId: string;
  readonly role: EngineRole;
  readonly address: RemoteAddress;
  readonly identity: EngineIdentity;
  ended: Error | null = null;
  /** The only group of P and D. */
  roleset = 'all';
  combined = false;
  readonly holds: ReaderHolds;
  readonly store: StoreUse | null;
  readonly #streams: Map<string, OutputStream>;
  /** Outputs on their way to whoever reads the streams. */
  readonly #outbox: RequestOutput[] = [];
  readonly #net: Net;
  readonly #clock: TestClock;

  constructor(
    engineId: string,
    port: number,
    sizes: Sizes,
    settings: ConnectorConfig,
    clock: TestClock,
    net: Net,
  ) {
    const config = { ...engineConfig(sizes), engineId, port, connector: settings };
    const { host, cache } = config;
    const { blockSize, groups } = cache;
    const blockBytes = groups.map(() => 1);
    const identity = { engineId, host, port, compatibilityHash: 'same', blockSize, blockBytes };
    const transport = new PolicyTransport(identity, net);
    const streams = new Map<string, OutputStream>();
    const connector = createConnector(settings, {
      ...{ engine: config, transport, clock },
      ...{ onHoldDropped() {}, onPull() {}, onChunk() {}, onStored() {} },
      onTransfer({ requestId, remote, result }) {
        const from = remote.engineId === STORE_ADDRESS.engineId ? 'loads' : 'transfers';
        streams.get(requestId)?.[from].push(result);
      },
    });
    super(config, { connector, clock });
    this.#streams = streams;
    this.#net = net;
    this.#clock = clock;
    this.engineId = engineId;
    this.role = engineId.startsWith('prefill') ? 'prefill' : 'decode';
    this.address = { engineId, host, port };
    this.identity = identity;
    this.holds = connector.holds ?? NO_HOLDS;
    this.store = connector.store ?? null;
    transport.kv.model = this.model;
  }

  get load() {
    return { inFlight: this.#streams.size };
  }

  /** Ends as a thread does: its state is lost, and its streams fail. */
  end(): void {
    this.ended = new EngineDeadError(`${this.engineId} ended`);
    this.#net.leave(this.engineId);
    for (const stream of this.#streams.values()) stream.fail(this.ended);
    this.#streams.clear();
  }

  async submit(engineRequest: EngineRequest): Promise<OutputStream> {
    if (this.ended) throw this.ended;
    this.add(engineRequest);
    const stream = new OutputStream(engineRequest.requestId);
    this.#streams.set(engineRequest.requestId, stream);
    return stream;
  }

  async stop(requestId: string): Promise<void> {
    if (!this.ended) this.core.stopRequest(requestId);
  }

  async abort(requestId: string): Promise<void> {
    this.#streams.delete(requestId);
    if (!this.ended) this.core.abortRequest(requestId);
  }

  async release(requestIds: readonly string[]): Promise<void> {
    for (const id of requestIds) this.holds.release(id);
  }

  async lookup(tokenIds: readonly number[], cacheSalt: string | null) {
    return this.core.inspect.lookup(tokenIds, cacheSalt);
  }

  async forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keep: number): Promise<void> {
    this.core.forgetPrefix(tokenIds, cacheSalt, keep);
  }

  override async step(): Promise<RequestOutput[]> {
    const outputs = await super.step();
    this.#outbox.push(...outputs);
    return outputs;
  }

  /** Delivers the steps' outputs to their streams; false if there are none. */
  tell(): boolean {
    const outputs = this.#outbox.splice(0);
    for (const output of outputs) {
      const stream = this.#streams.get(output.requestId);
      if (output.finish) this.#streams.delete(output.requestId);
      stream?.push(output, this.#clock.now());
    }
    return outputs.length > 0;
  }
}

/** Makes the tiers below a store of the policy tests, whose bytes are those of its KvModel. */
export type Below = (memory: BlockBytes) => LowerTiers;

/** A store with all of its policy code, on the same network. */
export class StoreNode {
  readonly catalog: BlockCatalog;
  readonly service: StoreService;
  readonly #net: Net;

  constructor(
    slots: number,
    net: Net,
    engines: readonly PolicyNode[],
    clock: TestClock,
    below: Below | null = null,
  ) {
    const { blockSize, blockBytes } = engines[0]!.identity;
    const identity = { ...STORE_ADDRESS, compatibilityHash: 'same', blockSize, blockBytes };
    const transport = new PolicyTransport(identity, net);
    const model = new KvModel(blockSize);
    transport.kv.model = model;
    const raised = new Map<number, Uint8Array>();
    const tiers = below?.({
      parts(slot) {
        const bytes = model.bytesOf(slot + 1);
        raised.set(slot, bytes);
        return [bytes];
      },
    });
    const lower: LowerTier | null = tiers
      ? {
          stored: (hash, slot, parent) => tiers.stored(hash, slot, parent),
          used: (hashes) => tiers.used(hashes),
          async look(hashes, worthMs) {
            const found = await tiers.look(hashes, worthMs);
            return {
              has: (hash) => found.has(hash),
              isFar: (hash) => found.isFar(hash),
              async load(hash, slot) {
                const came = await found.load(hash, slot);
                if (came) model.setBytes(slot + 1, raised.get(slot)!);
                return came;
              },
            };
          },
        }
      : null;
    this.catalog = new BlockCatalog({ slots, eviction: 's3fifo', ...tiers?.listeners });
    this.service = new StoreService({ transport, catalog: this.catalog, clock, lower });
    for (const { address } of engines) this.service.addEngine(address);
    this.#net = net;
  }

  /** Ends as a thread does. */
  end(): void {
    this.#net.leave(STORE_ADDRESS.engineId);
  }
}

export class PolicyCluster {
  readonly clock = new TestClock();
  readonly net = new Net();
  readonly store: StoreNode | null;
  p: PolicyNode;
  d: PolicyNode;
  readonly #make: (role: EngineRole, life: string) => PolicyNode;
  #lives = 1;
  handover: Handover = 'pull';
  /** D's requests whose final output reached the caller of turn(). */
  readonly taken: string[] = [];

  /** `storeSlots`: number of blocks of the store; null: there is no store. */
  constructor(p: Sizes, d: Sizes, changes: Changes = {}, storeSlots: number | null = null) {
    const settings = connectorWith({ loadFailurePolicy: 'recompute', ...changes });
    this.#make = (role, life) => {
      const [sizes, port] = role === 'prefill' ? [p, 5600] : [d, 5601];
      return new PolicyNode(`${role}-0${life}`, port, sizes, settings, this.clock, this.net);
    };
    this.p = this.#make('prefill', '');
    this.d = this.#make('decode', '');
    this.store =
      storeSlots === null ? null : new StoreNode(storeSlots, this.net, [this.p, this.d], this.clock);
  }

  /** Replaces the engine that ended. */
  replace(role: EngineRole): void {
    const engine = this.#make(role, `.${++this.#lives}`);
    this.store?.service.addEngine(engine.address);
    if (role === 'prefill') this.p = engine;
    else this.d = engine;
  }

  /** Serves one turn with the router's code. Returns D's output, and its parameters for the next turn. */
  async turn(
    id: string,
    promptTokenIds: readonly number[],
    sampling: Partial<SamplingParams>,
    remote: KvTransferParams | null,
    signal: AbortSignal | null = null,
    cacheSalt: string | null = null,
  ) {
    const turn: Turn = {
      requestIds: { prefill: `${id}-p`, decode: `${id}-d` },
      promptTokenIds,
      sampling: { ...greedy, ...sampling },
      cacheSalt,
      acceptedMs: this.clock.now(),
      remote,
      pull: null,
      signal,
      stopped: null,
    };
    const outputs = turnOutputs({ way: this.handover, prefill: this.p, decode: this.d }, turn);
    try {
      for await (const { side, output } of outputs)
        if (side === 'decode' && output.finish) this.taken.push(output.requestId);
    } catch (error) {
      // The request was aborted or failed; how it ended is read below.
      if (!(error instanceof KvferryError)) throw error;
    }
    const prefilled = this.p.endOf(`${id}-p`)!;
    const end = prefilled.finish!.kvTransferParams ? this.d.endOf(`${id}-d`)! : prefilled;
    const output = end === prefilled ? [] : this.d.tokensOf(`${id}-d`);
    return { end, output, params: end === prefilled ? null : end.finish!.kvTransferParams };
  }

  /** Steps and delivers until `done`; time passes only while nothing else can happen. */
  async runUntil(
    done: () => boolean,
    options: { pick?: (count: number) => number; idleMs?: number } = {},
  ): Promise<void> {
    const { pick = () => 0, idleMs = 6_000 } = options;
    for (let round = 0; !done(); round++) {
      if (round > 50_000) throw new Error('the cluster makes no progress');
      let moved = false;
      for (const node of [this.p, this.d]) {
        if (pick(4) < 3 && node.core.poll()) {
          await node.step();
          moved = true;
        }
        if (pick(3) < 2) moved = node.tell() || moved;
      }
      if (pick(3) < 2) moved = this.net.deliver(pick) || moved;
      await settled();
      if (!moved && !this.#moves(pick)) this.clock.advance(idleMs);
      await settled();
    }
  }

  /** Runs until the work has ended, and returns its result. */
  async finish<T>(work: Promise<T>, options?: Parameters<PolicyCluster['runUntil']>[1]): Promise<T> {
    let over = false;
    const end = () => {
      over = true;
    };
    work.then(end, end);
    await this.runUntil(() => over, options);
    return work;
  }

  /** Runs everything that can happen without time passing. */
  async settle(): Promise<void> {
    let moves = true;
    const done = () => {
      const before = moves;
      moves = this.#moves(() => 0);
      return !before && !moves;
    };
    await this.runUntil(done, { idleMs: 0 });
  }

  /** Delivers outputs, or one thing on its way. False if nothing happened and no engine has work that it can do now. */
  #moves(pick: (count: number) => number): boolean {
    const told = [this.p.tell(), this.d.tell()].includes(true);
    return told || this.p.core.poll() || this.d.core.poll() || this.net.deliver(pick);
  }

  /** Releases all holds, as at the end of a run. */
  async release(): Promise<void> {
    await this.runUntil(() => {
      for (const node of [this.p, this.d])
        for (const hold of node.holds.list()) node.holds.release(hold.requestId);
      return !this.p.core.hasWork() && !this.d.core.hasWork();
    });
  }
}
