/**
 * A fleet on a virtual clock: the real router and policies over simulated engines. Serves turns as a cluster of threads
 * does; run() lets time pass until what it is given is over.
 */
import type { KvCacheSpec } from '../config/engine.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import { keptBy } from '../engine/kv-cache-spec.ts';
import { InternalError, invariant } from '../errors.ts';
import type { Stage } from '../faults/schedule.ts';
import { engineCore, engineIdOf, fleetIn } from '../fleet/options.ts';
import type { Seat } from '../fleet/seats.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import { type HarmedFleet, Storm, stageOf } from '../lab/faults/storm.ts';
import type { Span } from '../measure/spans.ts';
import type { AutoscaleChoice } from '../router/autoscale/registry.ts';
import { ConversationCache } from '../router/conversations.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { PromptBuilder } from '../router/prompts.ts';
import { Router } from '../router/router.ts';
import { TurnSpans } from '../router/turn-spans.ts';
import type { GeneratedToken, GenerateRequest, TurnResult } from '../router/turn-types.ts';
import { SILENCE_MS } from '../transport/deadlines.ts';
import type { ClaimPrefix } from '../transport/prefix-claim.ts';
import type { TransferResult } from '../transport/types.ts';
import type { Answers } from './answers.ts';
import { VirtualClock } from './clock.ts';
import { ASSUMED_START_MS } from './costs/published.ts';
import type { SimulationCosts } from './costs/types.ts';
import { simulatedClaims, simulatedHasher } from './digests.ts';
import { SimulatedEngine } from './engine.ts';
import { SimulatedFleet } from './fleet.ts';
import { checkEngines } from './invariants.ts';
import { type LinkSharing, LinkTable } from './links.ts';
import { SharedResource } from './resources.ts';
import { SimulatedRouting } from './routing.ts';
import { tokensOnly } from './text.ts';
import { SimulatedNet } from './transport.ts';
import { SimulatedWires } from './wires.ts';

export interface SimulationSettings {
  /** What a cluster of threads would be built from; what is of kernels and devices alone is of no effect. */
  options: ClusterOptions;
  costs: SimulationCosts;
  answers: Answers;
  /** What the model's KV cache groups keep, unless options say that they keep everything. */
  groups: readonly KvCacheSpec[];
  /** Bytes of a KV block, whichever group has it. */
  blockBytes: number;
  sharing: LinkSharing;
  /** Checks every invariant after every event. */
  check: boolean;
  /** Lets promises that were resolved run on: the event loop's next task. */
  nextTask: () => Promise<void>;
  /**
   * Takes decode steps in which nothing can change at once, and tells of a request's first and last token alone: the same
   * comes out, sooner.
   */
  runs: boolean;
  /** Whose rule says how many engines there are; absent: as many as at the start. */
  autoscale?: AutoscaleChoice | null;
  /** Told every stage of every turn, which takes time; absent: nobody is. */
  onSpan?: ((span: Span) => void) | null;
  /** Told of each turn that ended well. */
  onTurnEnd?: ((result: TurnResult) => void) | null;
  /** Things are to go wrong; absent: nothing does. */
  faults?: boolean;
  /** Another policy may take over while turns are served; absent: the first one stays. */
  reroutable?: boolean;
}

/** Events between two calls of `onProgress`. */
const PROGRESS_EVENTS = 4096;
/** Longer than any READ is waited for. */
const LONGEST_WAIT_MS = 3_600_000;

export class SimulatedCluster {
  readonly clock = new VirtualClock();
  readonly net: SimulatedNet;
  readonly links: LinkTable;
  readonly fleet: SimulatedFleet;
  /** What does harm; null: nothing is to happen to anybody. */
  readonly storm: Storm | null;
  readonly #byId = new Map<string, SimulatedEngine>();
  readonly #settings: SimulationSettings;
  readonly #groups: readonly KvCacheSpec[];
  readonly #conversations: ConversationCache;
  readonly #router: Router;
  readonly routing: SimulatedRouting;
  readonly #machine: SharedResource | null;
  readonly #claim: ClaimPrefix;
  readonly #spans = new TurnSpans();
  /** Engines as the router sees them. */
  readonly #clients = new WeakMap<SimulatedEngine, EngineClient>();
  #onStage: ((stage: Stage) => void) | null = null;
  /** Engines to look after, in the order in which something happened to them. */
  readonly #touched = new Set<string>();
  /** READs by how they ended. */
  readonly transfers: Record<TransferResult['outcome'], number> = {
    done: 0,
    declined: 0,
    expired: 0,
    refused: 0,
    failed: 0,
    dead: 0,
  };
  events = 0;

  /** Throws ConfigError. */
  constructor(settings: SimulationSettings) {
    const { options, costs, blockBytes, autoscale = null } = settings;
    const { mode, handover } = options;
    this.#settings = settings;
    this.links = new LinkTable(this.clock, options.link, () => this.fleet.seats, settings.sharing);
    this.#claim = simulatedClaims(options.connector.nixl.tokenCheck);
    const { speeds } = costs;
    this.#machine =
      speeds && new SharedResource(this.clock, (steps) => speeds[Math.min(steps, speeds.length) - 1]!);
    const wires = settings.faults ? new SimulatedWires((engineId) => this.net.others(engineId)) : null;
    this.storm = wires && new Storm(this.clock, wires);
    this.net = new SimulatedNet({
      ...{ wires, silenceMs: options.silenceMs ?? SILENCE_MS },
      ...{ clock: this.clock, costs },
      link: (from, to) => this.links.between(this.#seatOf(from), this.#seatOf(to)),
      catchUp: (engineId) => this.#byId.get(engineId)?.catchUp(),
      deviceBusyMs: (engineId) => this.#byId.get(engineId)?.deviceBusyMs ?? 0,
      touch: (engineId) => this.#touched.add(engineId),
    });
    this.#groups = keptBy(settings.groups, options.allFullKv ?? false);
    this.routing = new SimulatedRouting(
      options,
      { groups: this.#groups, blockBytes },
      settings.reroutable ?? false,
    );
    this.#conversations = new ConversationCache(this.clock);
    this.#router = new Router({
      text: tokensOnly,
      prompts: new PromptBuilder(tokensOnly),
      conversations: this.#conversations,
      clock: this.clock,
      routing: () => this.routing.inForce,
      placement: { mode: options.placement ?? 'pooled', rolesets: fleetIn(options).rolesets },
      settings: () => {
        const throttled = options.link !== null || this.fleet.seats.links.length > 0;
        return { mode, handover, throttled };
      },
      engines: () => this.#caughtUp(),
      onTurn: (turn) => {
        this.fleet.tell({ kind: 'turn', ...turn });
        this.#onStage?.('waiting');
      },
      onTurnEnd: (result) => {
        this.fleet.tell({ kind: 'turn ended', result });
        settings.onTurnEnd?.(result);
      },
      onRequest() {},
      newId: (name) => name,
      spans: this.#spans,
    });
    this.fleet = new SimulatedFleet({
      ...{ clock: this.clock, options, conversations: this.#conversations },
      startMs: costs.startMs ?? ASSUMED_START_MS,
      turns: this.#router.turnsAt,
      make: (seat, life, startMs) => this.#make(seat, life, startMs),
      clientOf: (engine) => this.#clientOf(engine),
      catchUp: () => this.#catchUp(),
      onNotice: (notice) => {
        if (notice.kind === 'left' || notice.kind === 'dead') this.routing.views.forget(notice.engineId);
      },
    });
    this.storm?.over(this.#harmed());
    if (autoscale) this.fleet.autoscale(autoscale);
    if (settings.onSpan) this.#spans.listen(settings.onSpan);
  }

  /** In the order in which they came, ended ones included. */
  get engines(): readonly SimulatedEngine[] {
    return this.fleet.everyone;
  }

  generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    return this.#router.serve(request);
  }

  async endConversation(conversationId: string): Promise<void> {
    this.#conversations.forget(conversationId);
  }

  /**
   * Lets time pass until the work is over, whose promises wait for nothing but this clock; rejects with what it rejects
   * with. Throws InternalError when nothing is left to happen before that.
   */
  async run<T>(work: Promise<T>, onProgress?: (nowMs: number) => Promise<void> | void): Promise<T> {
    const ended: { value?: T; error?: unknown; over: boolean } = { over: false };
    work.then(
      (value) => Object.assign(ended, { value, over: true }),
      (error: unknown) => Object.assign(ended, { error, over: true }),
    );
    for (;;) {
      await this.#settle();
      if (ended.over) break;
      if (!this.clock.next()) this.#stuck();
      if (++this.events % PROGRESS_EVENTS === 0) await onProgress?.(this.clock.now());
    }
    if ('error' in ended) throw ended.error;
    return ended.value as T;
  }

  /** Lets time pass until it is so, or nothing is to come, or a simulated hour went by. */
  async until(isSo: () => boolean): Promise<void> {
    const endMs = this.clock.now() + LONGEST_WAIT_MS;
    await this.#settle();
    while (!isSo() && this.clock.now() < endMs && this.clock.next()) await this.#settle();
  }

  /** Of those whose news a policy looks at, what they did until now is told. */
  #caughtUp(): readonly EngineClient[] {
    const { load, cache } = this.routing.inForce.looksAt;
    if (load || cache) this.#catchUp();
    const { staying } = this.fleet;
    return this.storm ? staying.map((engine) => this.#clientOf(engine)) : staying;
  }

  #catchUp(): void {
    for (const engine of this.fleet.staying) engine.catchUp();
  }

  /** All that may happen without time passing. */
  async #settle(): Promise<void> {
    const changed = new Set<SimulatedEngine>();
    for (;;) {
      // Whatever happened, or an engine did, may have let promises run on: a connector's, of which nobody tells.
      await this.#settings.nextTask();
      if (this.#touched.size === 0) break;
      const touched = [...this.#touched];
      this.#touched.clear();
      for (const id of touched) {
        const engine = this.#byId.get(id)!;
        engine.look();
        engine.meter.look();
        if (this.#settings.check) changed.add(engine);
      }
    }
    checkEngines(changed);
  }

  #make(seat: Seat, life: number, startMs: number): SimulatedEngine {
    const { options, costs, answers, blockBytes, autoscale = null, faults = false, onSpan } = this.#settings;
    const { load, cache } = this.routing.told;
    const told = load || cache || autoscale !== null;
    const core = engineCore(options, seat, engineIdOf(seat, life), options.mode);
    const config = { ...core, cache: { ...core.cache, groups: this.#groups } };
    const { engineId } = config;
    const engine: SimulatedEngine = new SimulatedEngine(config, seat, {
      ...{ clock: this.clock, costs, net: this.net, machine: this.#machine, hasher: simulatedHasher },
      ...{ answers, blockBytes, claim: this.#claim, startMs, onlyEnds: this.#settings.runs && !faults },
      // News of an age must be told in the order of their times.
      runs:
        this.#settings.runs && !faults && this.#machine === null && !(told && (options.signalAgeMs ?? 0) > 0),
      touch: (id) => this.#touched.add(id),
      onLoad: load || autoscale ? (news) => this.#tellLoad(engineId, news, load) : null,
      onCache: cache ? (events, atMs) => this.routing.views.cached({ engineId, events, atMs }) : null,
      onTransfer: (_requestId, { outcome }) => {
        this.transfers[outcome]++;
      },
      onSpan: onSpan ? (span) => this.#spans.tell(span) : null,
      onEnd: () => this.fleet.ended(engine),
      onStage: faults ? (said) => this.#said(engine, said) : null,
    });
    this.#byId.set(engineId, engine);
    this.#touched.add(engineId);
    return engine;
  }

  #clientOf(engine: SimulatedEngine): EngineClient {
    if (!this.storm) return engine;
    const client = this.#clients.get(engine) ?? this.storm.client(engine);
    this.#clients.set(engine, client);
    return client;
  }

  #harmed(): HarmedFleet {
    const { fleet } = this;
    return {
      get engines() {
        return fleet.present;
      },
      engine: (role) => fleet.engine(role),
      revive: () => fleet.revive(),
      onStage: (listener) => {
        this.#onStage = listener;
      },
    };
  }

  #tellLoad(engineId: string, load: EngineLoad, routed: boolean): void {
    if (routed) this.routing.views.load(engineId, load);
    this.fleet.tellLoad({ engineId, load });
  }

  #said({ role }: SimulatedEngine, said: string): void {
    const stage = stageOf(role, said);
    if (stage) this.#onStage?.(stage);
  }

  #seatOf(engineId: string): string {
    const engine = this.#byId.get(engineId);
    invariant(engine, () => `there is no engine ${engineId}`);
    return engine.name;
  }

  #stuck(): never {
    checkEngines(this.engines);
    const waiting = this.engines.flatMap(({ engineId, load, core }) => {
      if (load.inFlight === 0) return [];
      const { running, waiting, waitingForRemote } = core.inspect.load();
      return [
        `${engineId} has ${load.inFlight} requests: ${running} run, ${waiting} wait, ${waitingForRemote} wait for KV`,
      ];
    });
    throw new InternalError(
      `the simulation stands still at ${this.clock.now()} ms and nothing is to come: ${waiting.join('; ') || 'no engine has a request'}`,
    );
  }
}
