/**
 * Membership of a simulated fleet: the first engines, those that join and leave as real ones do
 * (src/fleet/membership.ts), and what that cost. An engine that joins or replaces another serves once its start-up is
 * over.
 */
import { deathReason, messageOf } from '../errors.ts';
import { type AutoscaleWatcher, startAutoscaler } from '../fleet/autoscaled.ts';
import { EnginePool } from '../fleet/engine-pool.ts';
import type { LoadNews } from '../fleet/load-watch.ts';
import { Membership } from '../fleet/membership.ts';
import type { ClusterNotice } from '../fleet/notices.ts';
import { fleetIn, seatsOf } from '../fleet/options.ts';
import type { MembershipNotice, ScaleReport } from '../fleet/scale-report.ts';
import type { FleetOptions, Seat } from '../fleet/seats.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import { type AutoscaleDecision, reasonOf } from '../router/autoscale/loop.ts';
import { type AutoscaleChoice, INTERVAL_MS } from '../router/autoscale/registry.ts';
import type { ConversationCache } from '../router/conversations.ts';
import type { EngineClient, EngineRole } from '../router/engine-client.ts';
import { type DrainRule, WAIT_30S } from '../router/scaling/drain.ts';
import type { ScaleTarget } from '../router/scaling/plan.ts';
import type { TurnsByEngine } from '../router/turns-by-engine.ts';
import type { VirtualClock } from './clock.ts';
import type { SimulatedEngine } from './engines/engine.ts';
import { deathEvent, type FleetEvent, memberEvent } from './fleet-event.ts';
import { LostKv } from './results/lost-kv.ts';

export interface SimulatedFleetDeps {
  clock: VirtualClock;
  options: ClusterOptions;
  conversations: ConversationCache;
  turns: TurnsByEngine;
  /** Start-up time of a new engine, ms. */
  startMs: number;
  create: (seat: Seat, life: number, startMs: number) => SimulatedEngine;
  clientOf: (engine: SimulatedEngine) => EngineClient;
  /** Brings the engines' reports up to the current time. */
  catchUp: () => void;
  onNotice: (notice: ClusterNotice) => void;
  /** Called with each event, which is then not kept; null: events are kept in `events`. */
  onEvent: ((event: FleetEvent) => void) | null;
}

export class SimulatedFleet {
  /** All engines in the order in which they joined, ended ones included. */
  readonly everyone: SimulatedEngine[];
  /** Start-ups that are not over, and when each began, ms. */
  readonly starting = new Set<{ readonly begunMs: number }>();
  readonly lostKv = new LostKv();
  readonly events: FleetEvent[] = [];
  migratedTokens = 0;
  /** Decisions of the autoscaler, those that changed nothing included. */
  decisions = 0;
  /**
   * Why the autoscaler last changed nothing, or has not decided yet; null: there is none, or it always changed
   * something.
   */
  stayed: string | null = null;
  readonly #deps: SimulatedFleetDeps;
  readonly #pool: EnginePool<SimulatedEngine>;
  readonly #members: Membership<SimulatedEngine>;
  readonly #listeners = new Set<(notice: ClusterNotice) => void>();
  readonly #loadListeners = new Set<(news: LoadNews) => void>();
  /** By engine: an idle one reports nothing that a new listener would hear. */
  readonly #lastLoads = new Map<string, LoadNews>();
  #reviving = false;
  #ids = 0;

  constructor(deps: SimulatedFleetDeps) {
    this.#deps = deps;
    const { clock, options, conversations, turns, clientOf } = deps;
    this.everyone = seatsOf(options).map((seat) => deps.create(seat, 1, 0));
    this.#pool = new EnginePool(fleetIn(options), this.everyone, {
      start: async (seat, life) => {
        const begun = { begunMs: clock.now() };
        this.starting.add(begun);
        await clock.sleep(deps.startMs);
        this.starting.delete(begun);
        const engine = deps.create(seat, life, deps.startMs);
        this.everyone.push(engine);
        return engine;
      },
      connect: async () => {},
    });
    this.#members = new Membership({
      ...{ pool: this.#pool, clock, conversations, turns, clientOf, options: () => options },
      checkRoom() {},
      joins: async () => {},
      notify: (notice) => this.#emitMember(notice),
      newId: (name) => `${name}.${++this.#ids}`,
      onLost: (conversation, tokens) => this.lostKv.lost(conversation, tokens),
    });
  }

  /** Engines that may get turns. */
  get staying(): readonly SimulatedEngine[] {
    return this.#members.staying;
  }

  /** Engines that have a seat now, ended ones included. */
  get present(): readonly SimulatedEngine[] {
    return this.#pool.all;
  }

  get seats(): FleetOptions {
    return this.#pool.fleet;
  }

  /** The role's first engine that serves, if one does. */
  engine(role: EngineRole): SimulatedEngine {
    return this.#pool.first(role);
  }

  onNotice(listener: (notice: ClusterNotice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(notice: ClusterNotice): void {
    if (notice.kind === 'turn ended') this.lostKv.turnEnded(notice.result);
    this.#deps.onNotice(notice);
    for (const listener of this.#listeners) listener(notice);
  }

  reportLoad(news: LoadNews): void {
    this.#lastLoads.set(news.engineId, news);
    for (const listener of this.#loadListeners) listener(news);
  }

  scale(target: ScaleTarget, drain?: DrainRule): Promise<ScaleReport> {
    return this.#members.scale(target, drain ?? this.#deps.options.drain ?? WAIT_30S);
  }

  revive(): Promise<number> {
    return this.#members.revive();
  }

  /** Call when an engine ended. What it held for next turns counts as lost, unless it was leaving. */
  ended(engine: SimulatedEngine): void {
    this.#lastLoads.delete(engine.engineId);
    if (this.#members.isLeaving(engine)) return;
    const { engineId, role } = engine;
    for (const conversation of this.#deps.conversations.heldAt(engineId))
      this.lostKv.lost(conversation, conversation.kv?.params.remote_num_tokens ?? 0);
    const { ended: error } = engine;
    const [message, reason] = [messageOf(error), deathReason(error)];
    const death = { kind: 'dead', engineId, role, message, reason } as const;
    this.#happened(deathEvent(death, this.#deps.clock.now()));
    this.notify(death);
  }

  /** From now on, a new engine is started in the seat of each that dies. */
  replaceTheDead(): void {
    this.onNotice(({ kind }) => {
      if (kind === 'dead') void this.#replace();
    });
  }

  /** Starts an autoscaler; returns a function that stops it. Throws ConfigError. */
  autoscale(choice: AutoscaleChoice): () => void {
    const { clock, options, catchUp } = this.#deps;
    const members = this.#members;
    const firstMs = choice.intervalMs ?? INTERVAL_MS[choice.name];
    this.stayed = `${choice.name} first decides after ${firstMs / 1000} s, and the run ended before that`;
    const watcher: AutoscaleWatcher = {
      decided: (decision, acts) => this.#decided(decision, acts),
      failed: (message) => this.#add('failed', null, null, message),
    };
    const scaled = {
      settings: options,
      members: {
        get staying() {
          catchUp();
          return members.staying;
        },
        get changing() {
          return members.changing;
        },
        atClose() {},
      },
      onLoad: (listener: (news: LoadNews) => void) => {
        this.#loadListeners.add(listener);
        for (const news of this.#lastLoads.values()) listener(news);
        return () => void this.#loadListeners.delete(listener);
      },
      onNotice: (listener: (notice: ClusterNotice) => void) => this.onNotice(listener),
      scale: (target: ScaleTarget, drain?: DrainRule) => this.scale(target, drain),
    };
    return startAutoscaler(scaled, choice, watcher, clock.background());
  }

  /** Replaces dead engines one after the other, until none is left. */
  async #replace(): Promise<void> {
    if (this.#reviving) return;
    this.#reviving = true;
    while (this.staying.some(({ dead }) => dead)) await this.revive();
    this.#reviving = false;
  }

  #decided(decision: AutoscaleDecision, acts: boolean): void {
    if (this.decisions++ === 0) this.stayed = null;
    if (acts) this.#add('decided', null, null, reasonOf(decision));
    else if (!decision.target) this.stayed = reasonOf(decision);
  }

  #emitMember(notice: MembershipNotice): void {
    const event = memberEvent(notice, this.#deps.clock.now());
    if (event) this.#happened(event);
    if (notice.kind === 'left') this.migratedTokens += notice.migrated.tokens;
    this.notify(notice);
  }

  #add(event: FleetEvent['event'], engineId: string | null, role: EngineRole | null, detail: string): void {
    this.#happened({ atMs: this.#deps.clock.now(), event, engineId, role, detail });
  }

  #happened(event: FleetEvent): void {
    const { onEvent } = this.#deps;
    if (onEvent) onEvent(event);
    else this.events.push(event);
  }
}
