/** Real engines for the fleet view: started, watched, and ended before other real engines are started. */
import { parseRunConfig } from '../../../../src/config/run.ts';
import { AdapterError, messageOf } from '../../../../src/errors.ts';
import { kvGroups, kvPageBytes } from '../../../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../../../src/model/architecture/presets.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import type { LiveNews, LiveOrder } from '../../../../src/simulate/live/protocol.ts';
import { BLOCK_SIZE, roomOf } from '../../../../src/simulate/live/room.ts';
import type { LiveSettings } from '../../../../src/simulate/live/settings.ts';
import { carryOut } from '../../../../src/simulate/live/watched-fleet.ts';
import { startCluster } from '../../session/start-cluster.ts';
import { whatIsMissing } from '../../session/support.ts';
import { checkFleet, REAL_MODEL } from '../settings.ts';
import type { FleetThread } from '../thread.ts';
import { RealFleet } from './real-fleet.ts';

/** Between two looks; each look asks all engines. */
const LOOK_MS = 250;

const KV_DTYPE = 'f16';

/** The last start or end. They run one after the other, so that two fleets' engines never exist at once. */
let last: Promise<unknown> = Promise.resolve();

function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const next = last.catch(() => {}).then(work);
  last = next;
  return next;
}

export interface RealNews {
  heard: (news: LiveNews) => void;
  /** Called at most once; nothing is heard after it. */
  failed: (why: string) => void;
  /** Called with a message before engines are built, and with null and the adapter's name when they run. */
  starting: (message: string | null, adapter: string) => void;
}

export function startReal(news: RealNews): FleetThread {
  const host = new RealHost(news);
  return { order: (order) => host.order(order), end: () => host.end() };
}

class RealHost {
  readonly #news: RealNews;
  #fleet: RealFleet | null = null;
  /** Number of starts and ends. A start that sees a newer number stops. */
  #starts = 0;
  /** Orders that arrived while engines were being built. */
  #later: LiveOrder[] = [];

  constructor(news: RealNews) {
    this.#news = news;
  }

  order(order: LiveOrder): void {
    if (order.kind === 'start') {
      this.#end();
      this.#later = [];
      void this.#start(order.settings, this.#starts);
    } else if (this.#fleet) this.#take(this.#fleet, order);
    else this.#later.push(order);
  }

  end(): void {
    this.#end();
  }

  async #start(settings: LiveSettings, start: number): Promise<void> {
    try {
      const fleet = await inTurn(() => this.#built(settings, start));
      if (!fleet) return;
      while (this.#fleet === fleet) {
        const look = await fleet.look();
        if (this.#fleet === fleet) this.#news.heard({ kind: 'look', look, speed: 1 });
        await systemClock.sleep(LOOK_MS);
      }
    } catch (error) {
      this.#broke(error, start);
    }
  }

  /** The new fleet; null if another start came meanwhile (then nothing is left running). */
  async #built(settings: LiveSettings, start: number): Promise<RealFleet | null> {
    if (start !== this.#starts) return null;
    const { heard, starting } = this.#news;
    const { prefill, decode, blocks, load } = settings;
    checkFleet({ engines: 'real', blocks }, load);
    const missing = await whatIsMissing();
    if (missing) throw new AdapterError(missing.message);
    const cluster = await startCluster(runConfig(settings), {
      ...{ files: null, models: new Map(), leastBlocks: 0 },
      onBuild: (slow) => {
        if (start !== this.#starts) return;
        const what = `${prefill} P and ${decode} D with ${REAL_MODEL}`;
        starting(`Starting ${what}, each on its own WebGPU device.${slow}`, '');
      },
    });
    if (start !== this.#starts) {
      await cluster.close();
      return null;
    }
    const fleet = new RealFleet(cluster, settings, {
      said: (message) => {
        if (start === this.#starts) heard({ kind: 'said', message });
      },
      broke: (error) => this.#broke(error, start),
    });
    this.#fleet = fleet;
    starting(null, cluster.info.adapter.name);
    for (const order of this.#later.splice(0)) this.#take(fleet, order);
    return fleet;
  }

  #take(fleet: RealFleet, order: LiveOrder): void {
    switch (order.kind) {
      case 'pace':
        fleet.hold(order.speed === 0);
        break;
      case 'start':
      case 'compare':
        break;
      default:
        carryOut(fleet, order, this.#news.heard);
    }
  }

  #broke(error: unknown, start: number): void {
    if (start !== this.#starts) return;
    this.#end();
    this.#news.failed(messageOf(error));
  }

  #end(): void {
    this.#starts++;
    const fleet = this.#fleet;
    this.#fleet = null;
    if (fleet) inTurn(() => fleet.end()).catch(() => {});
  }
}

function runConfig({ prefill, decode, blocks, mode, seed, store }: LiveSettings) {
  const architecture = presetArchitecture(REAL_MODEL);
  const maxModelLen = Math.min(roomOf(blocks), architecture.maxModelLen);
  const blockBytes = kvPageBytes(kvGroups(architecture), architecture, BLOCK_SIZE, KV_DTYPE);
  return parseRunConfig({
    ...{ prefill, decode, seed, maxModelLen, model: REAL_MODEL, blockSize: BLOCK_SIZE, kvDtype: KV_DTYPE },
    ...{ pBlocks: blocks, dBlocks: blocks, mode: [mode], loadFailurePolicy: 'recompute' },
    ...(store && { store: store.blocks * blockBytes, storeEviction: store.eviction }),
  });
}
