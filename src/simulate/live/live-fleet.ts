/**
 * A simulated fleet that goes on as long as somebody watches: time passes as far as it is told to, and in between engines come
 * and go, policies and the load change, and everything can be looked at.
 */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { RoutingName } from '../../config/routing.ts';
import { messageOf, RequestError } from '../../errors.ts';
import type { AutoscaleChoice } from '../../router/autoscale/registry.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';
import type { TurnResult } from '../../router/turn-types.ts';
import { SimulatedCluster } from '../cluster.ts';
import type { SimulatedEngine } from '../engine.ts';
import type { Counting } from '../load.ts';
import type { SimulationSettings } from '../settings.ts';
import { LatencyWindow } from './latency.ts';
import { LiveLoad } from './load.ts';
import type { LiveEngine, LiveEvent, LiveLook, TurnPath } from './look.ts';
import { checkRoom } from './room.ts';
import type { LiveLoadSettings, LiveSettings } from './settings.ts';
import { TurnLog } from './turn-log.ts';
import { worldOf } from './world.ts';

/** Cells of a pool's picture at most. */
const MOST_CELLS = 256;
/** One point a second. */
const MOST_POINTS = 180;
const MOST_EVENTS = 100;

/** Targets at which fleets of this size change; those of the rules' sources are for larger ones. */
const AUTOSCALED = {
  prefill: { metric: 'waiting', target: 2 },
  decode: { metric: 'kv', target: 60 },
} as const;
export class LiveFleet implements Counting {
  readonly #cluster: SimulatedCluster;
  readonly #load: LiveLoad;
  readonly #turns = new TurnLog();
  readonly #latency = new LatencyWindow(MOST_POINTS);
  readonly #settings: LiveSettings;
  readonly #said: (message: string) => void;
  /** The last ones, in order. */
  readonly #events: LiveEvent[] = [];
  readonly #requests = { answered: 0, failed: 0, underWay: 0 };
  /** By engine, as of its last look after which time passed. */
  readonly #busy = new Map<string, { busyMs: number; atMs: number; share: number }>();
  #scaling = 0;
  #stopAutoscaler: (() => void) | null = null;
  #broken: unknown = null;

  /** `said`: told what was asked for and cannot be. Throws ConfigError. */
  constructor(
    settings: LiveSettings,
    nextTask: SimulationSettings['nextTask'],
    said: (message: string) => void,
  ) {
    this.#settings = settings;
    this.#said = said;
    const onSpan = this.#turns.saw.bind(this.#turns);
    const onFleetEvent = this.#add.bind(this);
    const watched = { nextTask, reroutable: true, onSpan, onFleetEvent };
    this.#cluster = new SimulatedCluster({ ...worldOf(settings), ...watched });
    this.#cluster.fleet.onNotice((notice) => {
      if (notice.kind === 'turn') this.#turns.begins(notice);
      if (notice.kind === 'turn ended') this.#turns.ends(notice.result);
    });
    const { clock } = this.#cluster;
    this.#load = new LiveLoad(this.#cluster, clock, this, settings, (error) => {
      this.#broken ??= error;
    });
    if (settings.autoscale) this.autoscale(settings.autoscale);
  }

  get nowMs(): number {
    return this.#cluster.clock.now();
  }

  /** Until then. Rejects with what is no request's own fault. */
  async advance(untilMs: number): Promise<void> {
    const { clock } = this.#cluster;
    const there = { reached: false };
    clock.at(untilMs, () => {
      there.reached = true;
    });
    await this.#cluster.until(() => there.reached || this.#broken !== null);
    if (this.#broken !== null) throw this.#broken;
    this.#latency.until(clock.now());
  }

  /** For conversations that come from now on. */
  changeLoad(load: LiveLoadSettings): void {
    try {
      checkRoom(this.#settings.blocks, load);
    } catch (error) {
      this.#said(messageOf(error));
      return;
    }
    if (load.rate !== this.#load.settings.rate) this.#happened('load', `${load.rate} requests a second`);
    this.#load.change(load);
  }

  changeRouting(name: RoutingName): void {
    this.#cluster.routing.change({ name, parameters: {} });
    this.#happened('routing', name);
  }

  /** null: as many as there are, until somebody says otherwise. */
  autoscale(name: AutoscalerName | null): void {
    this.#stopAutoscaler?.();
    this.#stopAutoscaler = null;
    if (name !== null) this.#stopAutoscaler = this.#cluster.fleet.autoscale(this.#choice(name));
    this.#happened('autoscaler', name ?? 'none');
  }

  /** Engines that come start first, those that leave drain. */
  scale(target: ScaleTarget): void {
    this.#changes(this.#cluster.fleet.scale(target));
  }

  /** As if its machine were lost. */
  kill(engineId: string): void {
    const engine = this.#cluster.fleet.present.find((each) => each.engineId === engineId && !each.ended);
    if (engine) engine.end('it was killed by hand');
    else this.#said(`${engineId} is not there any more`);
  }

  /** Starts engines in the places of those that died. */
  revive(): void {
    this.#changes(this.#cluster.fleet.revive());
  }

  path(turnId: string): TurnPath | null {
    return this.#turns.path(turnId);
  }

  look(): LiveLook {
    const { fleet, routing } = this.#cluster;
    const staying = new Set(fleet.staying);
    const engines = fleet.present.map((engine) => this.#engine(engine, staying.has(engine)));
    return {
      nowMs: this.nowMs,
      engines,
      decisions: this.#turns.last,
      latency: this.#latency.points,
      events: [...this.#events],
      requests: { ...this.#requests },
      turnedAway: this.#load.turnedAway,
      scaling: this.#scaling > 0,
      routing: routing.inForce.name,
      lostTokens: fleet.lostKv.lostTokens,
    };
  }

  arrives(): void {
    this.#requests.underWay++;
  }

  fails(): void {
    this.#requests.underWay--;
    this.#requests.failed++;
  }

  ends(startMs: number, { ttftMs, latencyMs }: TurnResult): void {
    this.#requests.underWay--;
    this.#requests.answered++;
    this.#latency.add({ endMs: startMs + latencyMs, ttftMs });
  }

  conversationEnds(): void {}

  #engine(engine: SimulatedEngine, stays: boolean): LiveEngine {
    const { engineId, role, ended, core } = engine;
    if (!ended) engine.catchUp();
    const { running, waiting, waitingForRemote, freeBlocks, numBlocks } = core.inspect.load();
    return {
      ...{ engineId, role },
      state: ended ? 'ended' : stays ? 'serving' : 'leaving',
      why: ended && messageOf(ended),
      ...(ended ? { running: 0, waiting: 0, loading: 0 } : { running, waiting, loading: waitingForRemote }),
      ...{ freeBlocks, numBlocks, busy: ended ? 0 : this.#busyShare(engine) },
      pool: ended ? null : core.inspect.occupancy(MOST_CELLS),
    };
  }

  #busyShare({ engineId, meter }: SimulatedEngine): number {
    const atMs = this.nowMs;
    const before = this.#busy.get(engineId) ?? { busyMs: 0, atMs: meter.startedMs, share: 0 };
    const passedMs = atMs - before.atMs;
    if (passedMs <= 0) return before.share;
    const busyMs = (meter.mean()?.busy ?? 0) * (atMs - meter.startedMs);
    const share = Math.min(1, Math.max(0, (busyMs - before.busyMs) / passedMs));
    this.#busy.set(engineId, { busyMs, atMs, share });
    return share;
  }

  #choice(name: AutoscalerName): AutoscaleChoice {
    const bounds = { min: 1, max: this.#settings.mostEngines };
    return { name, parameters: AUTOSCALED, intervalMs: null, bounds: { prefill: bounds, decode: bounds } };
  }

  /** What cannot be done is said; anything else breaks the fleet. */
  #changes(change: Promise<unknown>): void {
    this.#scaling++;
    change
      .catch((error: unknown) => {
        if (error instanceof RequestError) this.#said(error.message);
        else this.#broken ??= error;
      })
      .finally(() => {
        this.#scaling--;
      });
  }

  #happened(event: LiveEvent['event'], detail: string): void {
    this.#add({ atMs: this.nowMs, event, engineId: null, detail });
  }

  #add(event: LiveEvent): void {
    this.#events.push(event);
    if (this.#events.length > MOST_EVENTS) this.#events.shift();
  }
}
