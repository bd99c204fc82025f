/**
 * A simulated fleet for a viewer. Time passes as far as it is told to; in between, engines come and go, policies and
 * the load change, and everything can be looked at.
 */
import type { RoutingName } from '../../config/routing.ts';
import { messageOf } from '../../errors.ts';
import type { AutoscaleChoice } from '../../router/autoscale/registry.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';
import { SimulatedCluster } from '../cluster.ts';
import type { SimulatedEngine } from '../engines/engine.ts';
import type { SimulationSettings } from '../settings.ts';
import { FleetLog } from './fleet-log.ts';
import { LiveLoad } from './load.ts';
import { checkRoom } from './room.ts';
import type { LiveLoadSettings, LiveSettings } from './settings.ts';
import { type LiveBlocks, type LiveEngine, type LiveLook, MOST_CELLS } from './view.ts';
import { WatchedFleet } from './watched-fleet.ts';
import { worldOf } from './world.ts';

export class LiveFleet extends WatchedFleet {
  readonly #cluster: SimulatedCluster;
  readonly #load: LiveLoad;
  /** Busy share by engine, as of the last look after which time passed. */
  readonly #busy = new Map<string, { busyMs: number; atMs: number; share: number }>();
  #broken: unknown = null;

  /** `said`: called with the reason why something that was asked for cannot be done. Throws ConfigError. */
  constructor(
    settings: LiveSettings,
    nextTask: SimulationSettings['nextTask'],
    said: (message: string) => void,
  ) {
    super(settings, new FleetLog(), said);
    const onSpan = this.log.saw.bind(this.log);
    const onFleetEvent = this.log.happened.bind(this.log);
    const watched = { nextTask, reroutable: true, onSpan, onFleetEvent };
    this.#cluster = new SimulatedCluster({ ...worldOf(settings), ...watched });
    this.#cluster.fleet.onNotice((notice) => this.log.heard(notice));
    const { clock } = this.#cluster;
    const after = (ms: number, run: () => void) => {
      const timer = clock.after(ms, run);
      return () => clock.cancel(timer);
    };
    this.#load = new LiveLoad(this.#cluster, { after }, this.log, settings, (error) => this.broke(error));
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
    this.log.until(clock.now());
  }

  changeLoad(load: LiveLoadSettings): void {
    try {
      checkRoom(this.settings.blocks, load);
    } catch (error) {
      this.said(messageOf(error));
      return;
    }
    if (load.rate !== this.#load.settings.rate) this.happened('load', `${load.rate} requests a second`);
    this.#load.change(load);
  }

  changeRouting(name: RoutingName): void {
    this.#cluster.routing.change({ name, parameters: {} });
    this.happened('routing', name);
  }

  scale(target: ScaleTarget): void {
    this.changes(this.#cluster.fleet.scale(target));
  }

  kill(engineId: string): void {
    const engine = this.#cluster.fleet.present.find((each) => each.engineId === engineId && !each.ended);
    if (engine) engine.end('it was killed by hand');
    else this.said(`${engineId} is not there any more`);
  }

  revive(): void {
    this.changes(this.#cluster.fleet.revive());
  }

  look(): LiveLook {
    const { fleet, routing, store } = this.#cluster;
    const staying = new Set(fleet.staying);
    const engines = fleet.present.map((engine) => this.#engine(engine, staying.has(engine)));
    return {
      nowMs: this.nowMs,
      engines,
      opened: this.#blocks(),
      store: store && this.log.store(store.look(MOST_CELLS)),
      ...this.log.look(),
      turnedAway: this.#load.turnedAway,
      scaling: this.scaling,
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
    const engine = this.#cluster.fleet.present.find((each) => each.engineId === this.opened && !each.ended);
    if (!engine) return null;
    const { engineId, core } = engine;
    return this.log.blocks(engineId, core.inspect.load().numBlocks + 1, core.inspect.blocks());
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

  protected startAutoscaler(choice: AutoscaleChoice): () => void {
    return this.#cluster.fleet.autoscale(choice);
  }

  protected broke(error: unknown): void {
    this.#broken ??= error;
  }
}
