/**
 * A fleet of real engines that serves while the view is open: the counterpart of LiveFleet for simulated engines. Router,
 * policies and load are the same; times are wall time. The first engines are passed in; later ones are started here.
 */
import type { RoutingName } from '../../../../src/config/routing.ts';
import { EngineDeadError, KvferryError } from '../../../../src/errors.ts';
import { startAutoscaler } from '../../../../src/fleet/autoscaled.ts';
import type { EngineCluster } from '../../../../src/fleet/cluster.ts';
import type { ClusterNotice } from '../../../../src/fleet/notices.ts';
import type { Span } from '../../../../src/measure/spans/spans.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { reasonOf } from '../../../../src/router/autoscale/loop.ts';
import type { AutoscaleChoice } from '../../../../src/router/autoscale/registry.ts';
import type { ScaleTarget } from '../../../../src/router/scaling/plan.ts';
import { deathEvent, memberEvent } from '../../../../src/simulate/fleet-event.ts';
import { FleetLog } from '../../../../src/simulate/live/fleet-log.ts';
import { LiveLoad } from '../../../../src/simulate/live/load.ts';
import type { LiveLoadSettings, LiveSettings } from '../../../../src/simulate/live/settings.ts';
import type { LiveBlocks, LiveLook } from '../../../../src/simulate/live/view.ts';
import { WatchedFleet } from '../../../../src/simulate/live/watched-fleet.ts';
import type { Served } from '../../../../src/simulate/load/load.ts';
import { LOWEST_TOKEN_ID } from '../../../../src/workload/random-conversations.ts';
import { type EngineSnapshot, EngineSnapshots } from './engine-snapshots.ts';
import { StoreSnapshots } from './store-snapshots.ts';

/** Conversations. With more, the queues of engines that share one device show nothing new. */
const MOST_UNDER_WAY = 64;

export class RealFleet extends WatchedFleet {
  readonly #cluster: EngineCluster;
  readonly #broke: (error: unknown) => void;
  readonly #originMs: number;
  readonly #snapshots = new EngineSnapshots();
  readonly #store: StoreSnapshots | null;
  readonly #load: LiveLoad;
  readonly #ended = new AbortController();
  #wanted: LiveLoadSettings;
  #held = false;
  #routing: RoutingName;

  /** `said` gets messages about orders that cannot be carried out; `broke` gets errors that no request caused. */
  constructor(
    cluster: EngineCluster,
    settings: LiveSettings,
    told: { said: (message: string) => void; broke: (error: unknown) => void },
  ) {
    const originMs = systemClock.now();
    super(settings, new FleetLog(originMs), told.said);
    this.#originMs = originMs;
    this.#cluster = cluster;
    this.#broke = told.broke;
    this.#routing = settings.routing;
    this.#wanted = settings.load;
    this.#store = settings.store && new StoreSnapshots(cluster);
    cluster.onNotice((notice) => this.#heard(notice));
    cluster.onSpan((span) => this.#addSpan(span));
    this.#load = new LiveLoad(
      this.#served(),
      { after },
      this.log,
      {
        ...{ load: settings.load, seed: settings.seed, mostUnderWay: MOST_UNDER_WAY },
        tokenIds: [LOWEST_TOKEN_ID, cluster.info.model.vocabSize],
      },
      (error) => this.broke(error),
    );
    if (settings.autoscale) this.autoscale(settings.autoscale);
  }

  get nowMs(): number {
    return systemClock.now() - this.#originMs;
  }

  changeLoad(load: LiveLoadSettings): void {
    if (load.rate !== this.#wanted.rate) this.happened('load', `${load.rate} requests a second`);
    this.#wanted = load;
    this.#ask();
  }

  /** While held, no conversation starts; running ones continue. */
  hold(held: boolean): void {
    if (held === this.#held) return;
    this.#held = held;
    this.#ask();
  }

  changeRouting(name: RoutingName): void {
    this.#routing = name;
    this.happened('routing', name);
  }

  scale(target: ScaleTarget): void {
    const { mostEngines } = this.settings;
    if (Math.max(target.prefill ?? 0, target.decode ?? 0) > mostEngines)
      this.said(
        `there can be at most ${mostEngines} P and ${mostEngines} D here: real engines share one GPU`,
      );
    else this.changes(this.#cluster.scale(target));
  }

  kill(engineId: string): void {
    const engine = this.#cluster.engines.find((each) => each.engineId === engineId && !each.ended);
    if (engine) void engine.shutdown();
    else this.said(`${engineId} is already gone`);
  }

  revive(): void {
    this.changes(this.#cluster.revive());
  }

  /** Rejects with errors that no engine's end explains. */
  async look(): Promise<LiveLook> {
    const { engines: present, members } = this.#cluster;
    const staying = new Set(members.staying);
    const snapshots = await Promise.all(
      present.map((engine) => this.#snapshots.of(engine, staying.has(engine), this.nowMs)),
    );
    const store = (await this.#store?.take()) ?? null;
    const { nowMs } = this;
    this.log.until(nowMs);
    return {
      nowMs,
      engines: snapshots.map(({ engine }) => engine),
      opened: this.#blocks(snapshots),
      store: store && this.log.store(store),
      ...this.log.look(),
      turnedAway: this.#load.turnedAway,
      scaling: this.scaling,
      routing: this.#routing,
    };
  }

  /** Resolves when the engines have ended. */
  async end(): Promise<void> {
    this.stopAutoscaler();
    this.#ended.abort(new EngineDeadError('the fleet was left'));
    this.#ask();
    await this.#cluster.close();
  }

  /** The cluster as the load sees it: with a clock that starts at 0, and the current routing policy. */
  #served(): Served {
    const cluster = this.#cluster;
    const { signal } = this.#ended;
    return {
      clock: { now: () => this.nowMs, sleep: (ms) => systemClock.sleep(ms, signal) },
      generate: (request) => {
        signal.throwIfAborted();
        return cluster.generate({ ...request, signal, routing: this.#routing });
      },
      endConversation: (conversationId) => cluster.endConversation(conversationId),
    };
  }

  #blocks(snapshots: readonly EngineSnapshot[]): LiveBlocks | null {
    const { engine, blocks } = snapshots.find((snapshot) => snapshot.engine.engineId === this.opened) ?? {};
    return engine && blocks ? this.log.blocks(engine.engineId, blocks.numBlocks, blocks.facts) : null;
  }

  #ask(): void {
    const nobody = this.#held || this.#ended.signal.aborted;
    this.#load.change(nobody ? { ...this.#wanted, rate: 0 } : this.#wanted);
  }

  #heard(notice: ClusterNotice): void {
    this.log.heard(notice);
    switch (notice.kind) {
      case 'dead':
        this.log.happened(deathEvent(notice, this.nowMs));
        break;
      case 'joined':
      case 'leaving':
      case 'left': {
        const event = memberEvent(notice, this.nowMs);
        if (event) this.log.happened(event);
      }
    }
  }

  #addSpan(span: Span): void {
    this.log.saw(span);
    this.#snapshots.addSpan(span);
  }

  protected startAutoscaler(choice: AutoscaleChoice): () => void {
    return startAutoscaler(this.#cluster, choice, {
      decided: (decision, acts) => {
        if (acts) this.happened('decided', reasonOf(decision));
      },
      failed: (message) => this.happened('failed', message),
    });
  }

  protected broke(error: unknown): void {
    if (!this.#ended.signal.aborted) this.#broke(error);
  }

  /** Engines share one GPU here, which refuses them in more ways. */
  protected override refused(error: unknown): boolean {
    return error instanceof KvferryError && error.code !== 'internal';
  }
}

/** Calls `run` after `ms` of wall time. Returns a function that cancels it. */
function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}
