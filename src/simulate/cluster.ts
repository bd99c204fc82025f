/**
 * A fleet on a virtual clock: the real router and policies over simulated engines. Serves turns as a cluster of threads
 * does. run() lets time pass until the given work is over.
 */

import { STORE_ADDRESS } from '../config/connectors.ts';
import type { KvCacheSpec } from '../config/engine.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import { effectiveGroups } from '../engine/kv-cache-spec.ts';
import { invariant } from '../errors.ts';
import type { Stage } from '../faults/schedule.ts';
import { engineCore, engineIdOf, fleetIn, handoverOf } from '../fleet/options.ts';
import type { Seat } from '../fleet/seats.ts';
import { type HarmedFleet, Storm, scaledDown, stageOf } from '../lab/faults/storm.ts';
import { ConversationCache } from '../router/conversations.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { PromptBuilder } from '../router/prompts.ts';
import { Router } from '../router/router.ts';
import { TurnSpans } from '../router/turn-spans.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { SILENCE_MS } from '../transport/deadlines.ts';
import type { ClaimPrefix } from '../transport/prefix-claim.ts';
import type { TransferResult } from '../transport/types.ts';
import { VirtualClock } from './clock.ts';
import { ASSUMED_START_MS } from './costs/published.ts';
import type { Answers } from './engines/answers.ts';
import { SimulatedEngine } from './engines/engine.ts';
import { checkEngines, onStuck } from './engines/invariants.ts';
import type { StepDeps } from './engines/steps.ts';
import { EventLoop } from './event-loop.ts';
import { SimulatedFleet } from './fleet.ts';
import { drawnReads, drawnTimes, Machine } from './machine.ts';
import { LinkTable } from './network/links.ts';
import { type SimulatedLink, SimulatedNet } from './network/net.ts';
import type { TransportNet } from './network/transport.ts';
import { SimulatedWires } from './network/wires.ts';
import { SimulatedRouting } from './routing.ts';
import type { SimulationSettings } from './settings.ts';
import { SimulatedStore } from './store.ts';
import { tokensOnly } from './text.ts';
import { simulatedClaims, simulatedHasher } from './tokens/digests.ts';

export class SimulatedCluster {
  readonly clock = new VirtualClock();
  readonly #loop: EventLoop;
  readonly net: TransportNet;
  readonly links: LinkTable;
  readonly fleet: SimulatedFleet;
  /** null: the fleet has no store. */
  readonly store: SimulatedStore | null;
  /** Injects faults; null: none are planned. */
  readonly storm: Storm | null;
  readonly #byId = new Map<string, SimulatedEngine>();
  readonly #settings: SimulationSettings;
  readonly #groups: readonly KvCacheSpec[];
  readonly #conversations: ConversationCache;
  readonly #router: Router;
  readonly routing: SimulatedRouting;
  readonly #machine: Machine | null;
  readonly #varies: () => StepDeps['varies'];
  readonly #claim: ClaimPrefix;
  readonly #spans = new TurnSpans();
  /** Engines as the router sees them, while faults may be injected. */
  readonly #clients = new WeakMap<SimulatedEngine, EngineClient>();
  #onStage: ((stage: Stage) => void) | null = null;
  /** READs by outcome. */
  readonly transfers: Record<TransferResult['outcome'], number> = {
    done: 0,
    declined: 0,
    expired: 0,
    refused: 0,
    failed: 0,
    dead: 0,
  };

  /** Throws ConfigError. */
  constructor(settings: SimulationSettings) {
    const { options, costs, blockBytes, autoscale = null } = settings;
    this.#settings = settings;
    this.#loop = new EventLoop({
      ...{ clock: this.clock, nextTask: settings.nextTask },
      onStuck: () => onStuck(this.engines, this.clock.now()),
      check: settings.check ? (changed) => this.#check(changed) : null,
    });
    this.links = new LinkTable(this.clock, options.link, () => this.fleet.seats, settings.sharing);
    this.#claim = simulatedClaims(options.connector.nixl.tokenCheck);
    this.#varies = drawnTimes(costs.varies, settings.stepSeed ?? 0);
    this.#machine = costs.speeds && new Machine(this.clock, costs.speeds);
    const wires = settings.faults ? new SimulatedWires((engineId) => this.net.others(engineId)) : null;
    this.storm = wires && new Storm(this.clock, wires);
    this.net = new SimulatedNet({
      ...{ wires, silenceMs: options.silenceMs ?? SILENCE_MS },
      ...{ clock: this.clock, costs },
      link: (from, to) => this.#linkOf(from, to),
      catchUp: (engineId) => this.#byId.get(engineId)?.catchUp(),
      deviceBusyMs: (engineId) => this.#byId.get(engineId)?.deviceBusyMs ?? 0,
      roleOf: (engineId) => this.#byId.get(engineId)?.role ?? null,
      machine: this.#machine,
      varies: drawnReads(costs.readVaries, settings.stepSeed ?? 0),
      touch: (engineId) => {
        const engine = this.#byId.get(engineId);
        if (engine) this.#loop.touch(engine);
      },
    });
    this.#groups = effectiveGroups(settings.groups, options.allFullKv ?? false);
    const { clock, net } = this;
    const groups = this.#groups;
    this.store = options.store
      ? new SimulatedStore({
          ...{ options: options.store, blockSize: options.blockSize },
          ...{ blockBytes, groups, net, clock, costs },
        })
      : null;
    const { reroutable = false, chosen = null } = settings;
    this.routing = new SimulatedRouting(options, { groups, blockBytes }, reroutable, chosen);
    this.#conversations = new ConversationCache(this.clock);
    this.#router = new Router({
      text: tokensOnly,
      prompts: new PromptBuilder(tokensOnly),
      conversations: this.#conversations,
      clock: this.clock,
      routing: () => this.routing.active,
      placement: { mode: options.placement ?? 'pooled', rolesets: fleetIn(options).rolesets },
      settings: () => {
        const throttled = options.link !== null || this.fleet.seats.links.length > 0;
        return { mode: options.mode, handover: handoverOf(options), throttled };
      },
      engines: () => this.#caughtUp(),
      onTurn: (turn) => {
        this.fleet.notify({ kind: 'turn', ...turn });
        this.#onStage?.('waiting');
      },
      onTurnEnd: (result) => {
        this.fleet.notify({ kind: 'turn ended', result });
        settings.onTurnEnd?.(result);
      },
      onRequest: (request) => this.fleet.notify({ kind: 'request', ...request }),
      newId: (name) => name,
      spans: this.#spans,
    });
    this.fleet = new SimulatedFleet({
      ...{ clock: this.clock, options, conversations: this.#conversations },
      startMs: costs.startMs ?? ASSUMED_START_MS,
      onEvent: settings.onFleetEvent ?? null,
      turns: this.#router.turnsAt,
      create: (seat, life, startMs) => this.#createEngine(seat, life, startMs),
      clientOf: (engine) => this.#clientOf(engine),
      catchUp: () => this.#catchUp(),
      onNotice: (notice) => {
        if (notice.kind === 'left' || notice.kind === 'dead') this.routing.forget(notice.engineId);
      },
    });
    this.storm?.attach(this.#harmed());
    if (autoscale) this.fleet.autoscale(autoscale);
    const { onSpan } = settings;
    // The router's spans are on the virtual clock too.
    if (onSpan) this.#spans.listen((span) => onSpan({ ...span, clock: 'modelled' }));
  }

  get answers(): Answers {
    return this.#settings.answers;
  }

  /** All engines in the order in which they joined, ended ones included. */
  get engines(): readonly SimulatedEngine[] {
    return this.fleet.everyone;
  }

  generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    return this.#router.serve(request);
  }

  async endConversation(conversationId: string): Promise<void> {
    this.#conversations.forget(conversationId);
  }

  /** See EventLoop. */
  run<T>(work: Promise<T>, onProgress?: (nowMs: number) => Promise<void> | void): Promise<T> {
    return this.#loop.run(work, onProgress);
  }

  /** See EventLoop. */
  until(isSo: () => boolean): Promise<void> {
    return this.#loop.until(isSo);
  }

  get events(): number {
    return this.#loop.events;
  }

  /** The engines, for the router. If the policy uses their reports, these are brought up to the current time. */
  #caughtUp(): readonly EngineClient[] {
    const { load, cache } = this.routing.active.needs;
    if (load || cache) this.#catchUp();
    const { staying } = this.fleet;
    return this.storm ? staying.map((engine) => this.#clientOf(engine)) : staying;
  }

  #check(changed: ReadonlySet<SimulatedEngine>): void {
    checkEngines(changed);
    this.store?.checkIntegrity();
  }

  #catchUp(): void {
    for (const engine of this.fleet.staying) engine.catchUp();
  }

  #createEngine(seat: Seat, life: number, startMs: number): SimulatedEngine {
    const { options, costs, answers, blockBytes, autoscale = null, faults = false, onSpan } = this.#settings;
    const { load, cache } = this.routing.reported;
    const reports = load || cache || autoscale !== null;
    const core = engineCore(options, seat, engineIdOf(seat, life), options.mode);
    const config = Object.assign({}, core, {
      cache: Object.assign({}, core.cache, { groups: this.#groups }),
    });
    const { engineId } = config;
    const engine: SimulatedEngine = new SimulatedEngine(config, seat, {
      clock: this.clock,
      costs,
      net: this.net,
      machine: this.#machine,
      varies: this.#varies(),
      hasher: simulatedHasher,
      rank: this.#byId.size,
      answers,
      blockBytes,
      claim: this.#claim,
      startMs,
      onlyEnds: this.#settings.runs && !faults,
      // Reports with an age must be sent in time order, and generated KV must be saved block by block.
      runs:
        this.#settings.runs &&
        !faults &&
        this.#machine === null &&
        costs.varies === null &&
        !(reports && (options.signalAgeMs ?? 0) > 0) &&
        (!this.store || (options.connector.offloading?.promptOnly ?? true)),
      touch: (touched) => this.#loop.touch(touched),
      onLoad: load || autoscale ? (news) => this.#reportLoad(engineId, news, load) : null,
      onCache: cache ? (events, atMs) => this.routing.views.cached({ engineId, events, atMs }) : null,
      onTransfer: (_requestId, { outcome }) => {
        this.transfers[outcome]++;
      },
      onSpan: onSpan ? (span) => this.#spans.report(span) : null,
      onEnd: () => this.fleet.ended(engine),
      onStage: faults ? (said) => this.#said(engine, said) : null,
    });
    this.#byId.set(engineId, engine);
    this.#loop.touch(engine);
    this.store?.addEngine(engine.address);
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
      scaleDown: (role) => scaledDown(role, fleet.staying, (target) => fleet.scale(target)),
      onStage: (listener) => {
        this.#onStage = listener;
      },
    };
  }

  #reportLoad(engineId: string, load: EngineLoad, routed: boolean): void {
    if (routed) this.routing.views.load(engineId, load);
    this.fleet.reportLoad({ engineId, load });
  }

  #said({ role }: SimulatedEngine, said: string): void {
    const stage = stageOf(role, said);
    if (stage) this.#onStage?.(stage);
  }

  /** A store is memory of the engines' own machine, unless it is configured as remote. */
  #linkOf(from: string, to: string): SimulatedLink | null {
    const ofStore = [from, to].includes(STORE_ADDRESS.engineId);
    if (ofStore && !this.#settings.options.store?.remote) return null;
    return this.links.between(this.#seatOf(from), this.#seatOf(to));
  }

  #seatOf(engineId: string): string {
    if (engineId === STORE_ADDRESS.engineId) return engineId;
    const engine = this.#byId.get(engineId);
    invariant(engine, () => `there is no engine ${engineId}`);
    return engine.name;
  }
}
