/**
 * P and D with everything of theirs that is policy, both sides of the connector included, over a network that only a test
 * moves: KV is copied between KvModels when a READ completes, and what is under way can be delayed, fail, or outlive its
 * request.
 */
import type { Handover } from '../../src/config/cluster-schema.ts';
import type { ConnectorConfig, KvTransferParams } from '../../src/config/kv-transfer.ts';
import { NixlSchedulerSide } from '../../src/connector/nixl/scheduler-side.ts';
import { NixlWorkerSide } from '../../src/connector/nixl/worker-side.ts';
import type { RemoteAddress } from '../../src/engine/kv-connector.ts';
import type { EngineRequest, RequestOutput, SamplingParams } from '../../src/engine/types.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import type {
  EngineIdentity,
  PeerNotification,
  ReadRequest,
  ServingTransport,
  TransferResult,
  TransportHandlers,
} from '../../src/transport/types.ts';
import { engineConfig, KvModel, request, type Sizes, TestClock, TestEngine } from '../engine/fakes.ts';
import { connectorDefaults } from './scripted.ts';

/** Everything that was sent and has not arrived. */
export class Net {
  readonly #nodes = new Map<string, PolicyTransport>();
  readonly #underWay: (() => void)[] = [];
  /** Asked once a READ: true makes it fail half way. */
  failsNext: () => boolean = () => false;
  blocksMoved = 0;
  /** Streamed gathers whose blocks were given back before they were submitted. */
  revoked = 0;

  join(transport: PolicyTransport): void {
    this.#nodes.set(transport.identity.engineId, transport);
  }

  node(remote: RemoteAddress): PolicyTransport | undefined {
    return this.#nodes.get(remote.engineId);
  }

  post(arrive: () => void): void {
    this.#underWay.push(arrive);
  }

  /** Resolves when the test lets it arrive. */
  arrival(): Promise<void> {
    return new Promise((resolve) => this.post(resolve));
  }

  /** Lets one thing arrive, of those under way; false when there is none. */
  deliver(pick: (count: number) => number = () => 0): boolean {
    if (this.#underWay.length === 0) return false;
    const [arrive] = this.#underWay.splice(pick(this.#underWay.length), 1);
    arrive!();
    return true;
  }
}

class PolicyTransport implements ServingTransport {
  readonly identity: EngineIdentity;
  readonly kv: { model: KvModel | null } = { model: null };
  readonly #net: Net;
  handlers: Partial<TransportHandlers> = {};

  constructor(identity: EngineIdentity, net: Net) {
    this.identity = identity;
    this.#net = net;
    net.join(this);
  }

  setHandlers(handlers: Partial<TransportHandlers>): void {
    this.handlers = { ...this.handlers, ...handlers };
  }

  async clockOffsetSeconds(): Promise<number> {
    return 0;
  }

  notify(remote: RemoteAddress, notification: PeerNotification): void {
    const from = this.identity.engineId;
    this.#net.post(() => this.#net.node(remote)?.handlers.onNotification?.(from, notification));
  }

  read(request: ReadRequest): Promise<TransferResult> {
    return request.streamed ? this.#readStream(request) : this.#readHeld(request);
  }

  /** A gather takes its copy when the test lets the device come to it; the bytes arrive later still. */
  async #readStream({ remote, remoteRequestId, claim, pairs, signal }: ReadRequest): Promise<TransferResult> {
    const holder = this.#net.node(remote)!;
    await this.#net.arrival();
    const stream = holder.handlers.streamGate!(remoteRequestId, claim);
    try {
      for (let next = 0; next < pairs.length; ) {
        const ready = await stream.ready(pairs[next]!.remote, signal!);
        if (ready === null) return emptyResult('failed', 'nobody wants it', 0);
        if ('outcome' in ready) return emptyResult(ready.outcome, ready.message, 0);
        await this.#net.arrival();
        if (ready.revoked.aborted) this.#net.revoked++;
        if (ready.revoked.aborted) continue;
        const batch = pairs.slice(next).filter((pair) => pair.remote < ready.numBlocks);
        const bytes = new KvModel(holder.identity.blockSize);
        for (const { group, remote: index } of batch)
          bytes.copyBlock(holder.kv.model!, group, ready.blockIds[group]![index]!, index + 1);
        await this.#net.arrival();
        if (signal!.aborted) continue;
        if (this.#net.failsNext()) return emptyResult('failed', 'the test broke it', 0);
        for (const { group, remote: index, local } of batch)
          this.kv.model!.copyBlock(bytes, group, index + 1, local);
        this.#net.blocksMoved += batch.length;
        next += batch.length;
      }
      return emptyResult('done', '', 0);
    } finally {
      stream.finished();
    }
  }

  #readHeld({ remote, remoteRequestId, claim, pairs }: ReadRequest): Promise<TransferResult> {
    const holder = this.#net.node(remote);
    return new Promise((resolve) => {
      this.#net.post(() => {
        const blocks = pairs.map((pair) => ({ group: pair.group, blockId: pair.remote }));
        const gate = holder?.handlers.gate?.(remoteRequestId, blocks, claim);
        if (!gate?.allow) {
          resolve(emptyResult(gate?.outcome ?? 'dead', gate?.message ?? 'nobody is there', 0));
          return;
        }
        this.#net.post(() => {
          const fails = this.#net.failsNext();
          const moved = fails ? pairs.slice(0, pairs.length / 2) : pairs;
          for (const { group, remote: from, local } of moved) {
            this.kv.model!.copyBlock(holder!.kv.model!, group, from, local);
          }
          this.#net.blocksMoved += moved.length;
          gate.finished();
          resolve(emptyResult(fails ? 'failed' : 'done', fails ? 'the test broke it' : '', 0));
        });
      });
    });
  }
}

export class PolicyNode extends TestEngine {
  readonly worker: NixlWorkerSide;
  readonly #ends = new Map<string, (output: RequestOutput) => void>();

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
    const { blockSize } = cache;
    const identity = { engineId, host, port, compatibilityHash: 'same', blockSize, blockBytes: [1] };
    const transport = new PolicyTransport(identity, net);
    const worker = new NixlWorkerSide({ config: settings, transport, clock });
    const scheduler = new NixlSchedulerSide({ config: settings, engineId, host, port, blockSize, clock });
    super(config, { connector: { scheduler, worker }, clock });
    this.worker = worker;
    transport.kv.model = this.model;
  }

  /** Resolves with the output that ends the request. */
  run(engineRequest: EngineRequest): Promise<RequestOutput> {
    this.add(engineRequest);
    return new Promise((resolve) => this.#ends.set(engineRequest.requestId, resolve));
  }

  override async step(): Promise<RequestOutput[]> {
    const outputs = await super.step();
    for (const output of outputs) if (output.finish) this.#ends.get(output.requestId)?.(output);
    return outputs;
  }
}

export class PolicyCluster {
  readonly clock = new TestClock();
  readonly net = new Net();
  readonly p: PolicyNode;
  readonly d: PolicyNode;
  handover: Handover = 'pull';

  constructor(p: Sizes, d: Sizes, connector: Partial<ConnectorConfig> = {}) {
    const settings = { ...connectorDefaults, loadFailurePolicy: 'recompute' as const, ...connector };
    this.p = new PolicyNode('prefill-0', 5600, p, settings, this.clock, this.net);
    this.d = new PolicyNode('decode-0', 5601, d, settings, this.clock, this.net);
  }

  /** One turn as the router does it. Returns what D generated, and its params for the next turn. */
  async turn(
    id: string,
    prompt: readonly number[],
    sampling: Partial<SamplingParams>,
    last: KvTransferParams | null,
  ) {
    const toP = { ...(last ?? {}), do_remote_decode: true, do_remote_prefill: false };
    const once = { ...sampling, maxTokens: 1, minTokens: 0 };
    if (this.handover === 'streamed') {
      return this.#streamedTurn(id, request(`${id}-p`, prompt, once, streamedFrom(toP)), sampling);
    }
    const prefilled = await this.p.run(request(`${id}-p`, prompt, once, { kvTransferParams: toP }));
    const toD = prefilled.finish!.kvTransferParams;
    if (!toD) return { end: prefilled, output: [], params: null };
    const end = await this.d.run(request(`${id}-d`, prompt, sampling, { kvTransferParams: toD }));
    return { end, output: this.d.tokensOf(`${id}-d`), params: end.finish!.kvTransferParams };
  }

  /** P and D are asked at once; whichever ends without a result ends the other. */
  async #streamedTurn(id: string, toP: EngineRequest, sampling: Partial<SamplingParams>) {
    const prefilling = this.p.run(toP);
    const kvTransferParams: KvTransferParams = {
      ...{ do_remote_prefill: true, do_remote_decode: false, streamed: true },
      ...{ remote_engine_id: 'prefill-0', remote_host: 'localhost', remote_port: 5600 },
      remote_request_id: toP.requestId,
    };
    const decoding = this.d.run(request(`${id}-d`, toP.promptTokenIds, sampling, { kvTransferParams }));
    void prefilling.then(({ finish }) => {
      if (!finish!.kvTransferParams) this.d.core.abortRequest(`${id}-d`);
    });
    const end = await decoding;
    const output = this.d.tokensOf(`${id}-d`);
    if (output.length === 0) {
      this.p.core.abortRequest(toP.requestId);
      void prefilling.then(() => this.p.worker.releaseHold(toP.requestId));
    }
    const prefilled = await prefilling;
    if (!prefilled.finish!.kvTransferParams) return { end: prefilled, output: [], params: null };
    return { end, output, params: end.finish!.kvTransferParams };
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
        if (pick(4) < 3 && node.core.canStep()) {
          await node.step();
          moved = true;
        }
      }
      if (pick(3) < 2) moved = this.net.deliver(pick) || moved;
      await settled();
      if (!moved && !this.p.core.canStep() && !this.d.core.canStep() && !this.net.deliver(pick)) {
        this.clock.advance(idleMs);
        // As its loop does when it wakes: a read that pinned a hold may have ended.
        for (const node of [this.p, this.d]) await wake(node, this.clock);
      }
      await settled();
    }
  }

  /** Everything that is held is let go, as at the end of a run. */
  async release(): Promise<void> {
    await this.runUntil(() => {
      for (const node of [this.p, this.d])
        for (const hold of node.worker.holds()) node.worker.releaseHold(hold.requestId);
      return !this.p.core.hasWork() && !this.d.core.hasWork();
    });
  }
}

const streamedFrom = (params: KvTransferParams) => ({ kvTransferParams: { ...params, streamed: true } });

/** Lets promises that were resolved run on. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function wake(node: PolicyNode, clock: TestClock): Promise<void> {
  const stop = new AbortController();
  const waiting = node.core.waitForChange(stop.signal);
  clock.advance(1_000);
  await settled();
  stop.abort();
  await waiting;
}
