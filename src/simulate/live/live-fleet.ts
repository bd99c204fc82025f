/**
 * A simulated fleet for a viewer. Time passes as far as it is told to; in between, engines come and go, policies and
 * the load change, and everything can be looked at.
 */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { RoutingName } from '../../config/routing.ts';
import { messageOf, RequestError } from '../../errors.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';
import { SimulatedCluster } from '../cluster.ts';
import type { SimulatedEngine } from '../engines/engine.ts';
import type { SimulationSettings } from '../settings.ts';
import { liveAutoscaler } from './autoscaling.ts';
import { FleetLog } from './fleet-log.ts';
import { LiveLoad } from './load.ts';
import { checkRoom } from './room.ts';
import type { LiveLoadSettings, LiveSettings } from './settings.ts';
import {
  type LiveBlocks,
  type LiveEngine,
  type LiveEvent,
  type LiveLook,
  MOST_CELLS,
  type TurnPath,
} from './view.ts';
import { worldOf } from './world.ts';

export class LiveFleet {
  readonly #cluster: SimulatedCluster;
  readonly #load: LiveLoad;
  readonly #log = new FleetLog();
  readonly #settings: LiveSettings;
  readonly #said: (message: string) => void;
  /** Busy share by engine, as of the last look after which time passed. */
  readonly #busy = new Map<string, { busyMs: number; atMs: number; share: number }>();
  #opened: string | null = null;
  #scaling = 0;
  #stopAutoscaler: (() => void) | null = null;
  #broken: unknown = null;

  /** `said`: called with the reason why something that was asked for cannot be done. Throws ConfigError. */
  constructor(
    settings: LiveSettings,
    nextTask: SimulationSettings['nextTask'],
    said: (message: string) => void,
  ) {
    this.#settings = settings;
    this.#said = said;
    const onSpan = this.#log.saw.bind(this.#log);
    const onFleetEvent = this.#log.happened.bind(this.#log);
    const watched = { nextTask, reroutable: true, onSpan, onFleetEvent };
    this.#cluster = new SimulatedCluster({ ...worldOf(settings), ...watched });
    this.#cluster.fleet.onNotice((notice) => this.#log.heard(notice));
    const { clock } = this.#cluster;
    const after = (ms: number, run: () => void) => {
      const timer = clock.after(ms, run);
      return () => clock.cancel(timer);
    };
    this.#load = new LiveLoad(this.#cluster, { after }, this.#log, settings, (error) => {
      this.#broken ??= error;
    });
    if (settings.autoscale) this.autoscale(settings.autoscale);
  }

  get nowMs(): number {
    return this.#cluster.clock.now();
  }

  /** Lets time pass until then. Rejects with an error that is no request's own. */
  async advance(untilMs: number): Promise<void> {
    const { clock } = this.#cluster;
    const there = { reached: false };
    clock.at(untilMs, () => {
      there.reached = true;
    });
    await this.#cluster.until(() => there.reached || this.#broken !== null);
    if (this.#broken !== null) throw this.#broken;
    this.#log.until(clock.now());
  }

  /** Applies to conversations that arrive from now on. */
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

  /** null: no autoscaler; the number of engines stays until it is changed. */
  autoscale(name: AutoscalerName | null): void {
    this.#stopAutoscaler?.();
    this.#stopAutoscaler = null;
    const { mostEngines } = this.#settings;
    if (name !== null)
      this.#stopAutoscaler = this.#cluster.fleet.autoscale(liveAutoscaler(name, mostEngines));
    this.#happened('autoscaler', name ?? 'none');
  }

  /** New engines start first; leaving ones drain. */
  scale(target: ScaleTarget): void {
    this.#changes(this.#cluster.fleet.scale(target));
  }

  /** As if its machine were lost. */
  kill(engineId: string): void {
    const engine = this.#cluster.fleet.present.find((each) => each.engineId === engineId && !each.ended);
    if (engine) engine.end('it was killed by hand');
    else this.#said(`${engineId} is not there any more`);
  }

  /** Starts engines in the seats of those that died. */
  revive(): void {
    this.#changes(this.#cluster.fleet.revive());
  }

  /** The engine whose blocks looks show; null: none. */
  open(engineId: string | null): void {
    this.#opened = engineId;
  }

  path(turnId: string): TurnPath | null {
    return this.#log.path(turnId);
  }

  look(): LiveLook {
    const { fleet, routing, store } = this.#cluster;
    const staying = new Set(fleet.staying);
    const engines = fleet.present.map((engine) => this.#engine(engine, staying.has(engine)));
    return {
      nowMs: this.nowMs,
      engines,
      opened: this.#blocks(),
      store: store && this.#log.store(store.look(MOST_CELLS)),
      ...this.#log.look(),
      turnedAway: this.#load.turnedAway,
      scaling: this.#scaling > 0,
      routing: routing.active.name,
    };
  }

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

  #blocks(): LiveBlocks | null {
    const engine = this.#cluster.fleet.present.find((each) => each.engineId === this.#opened && !each.ended);
    if (!engine) return null;
    const { engineId, core } = engine;
    return this.#log.blocks(engineId, core.inspect.load().numBlocks + 1, core.inspect.blocks());
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

  /** A RequestError is reported; any other error breaks the fleet. */
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
    this.#log.happened({ atMs: this.nowMs, event, engineId: null, detail });
  }
}
