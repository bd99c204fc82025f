/** The page's engines: started, reconfigured, killed and rebuilt according to the settings. Independent of chat and views. */
import type { CostProfile } from '../../../src/config/cost-profile.ts';
import { parseRunConfig } from '../../../src/config/run.ts';
import { ModelError } from '../../../src/errors.ts';
import type { EngineCluster } from '../../../src/fleet/cluster.ts';
import type { PolicyChange } from '../../../src/fleet/types.ts';
import { pathChoice } from '../../../src/lab/multiturn/paths.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import type { SessionEvent } from '../../../src/recording/events.ts';
import { Recorder } from '../../../src/recording/recorder.ts';
import type { EngineRole } from '../../../src/router/engine-client.ts';
import { WAIT_30S } from '../../../src/router/scaling/drain.ts';
import { parseLink } from '../../../src/transport/link.ts';
import { fetchCode, findCode } from './fetch-code.ts';
import { ModelShelf } from './models.ts';
import { needsNewEngines, pageOnly, type Settings } from './settings.ts';
import { startCluster } from './start-cluster.ts';

/** Pools are built with at least this many blocks, so that larger pool settings need no new engines. */
const SPARE_BLOCKS = 128;

/** Interval of polling blocks while a turn runs. */
const POLL_BUSY_MS = 100;
const POLL_IDLE_MS = 1000;

export class Engines {
  readonly shelf = new ModelShelf();
  readonly #emit: (event: SessionEvent) => void;
  readonly #originMs: number;
  readonly #isBusy: () => boolean;
  #running: { cluster: EngineCluster; recorder: Recorder } | null = null;
  #started: Settings | null = null;
  #largest = { prefill: 0, decode: 0 };
  #lastPollMs = 0;
  readonly #profiles = new Map<string, CostProfile>();
  /** Settles when engines that are being added serve: a cluster takes one change at a time. */
  #joining: Promise<unknown> = Promise.resolve();

  constructor(emit: (event: SessionEvent) => void, originMs: number, isBusy: () => boolean) {
    this.#emit = emit;
    this.#originMs = originMs;
    this.#isBusy = isBusy;
    setInterval(() => this.#poll(), POLL_BUSY_MS);
  }

  get running(): { cluster: EngineCluster; recorder: Recorder } | null {
    return this.#running;
  }

  /** Ends running engines and starts new ones. Throws KvferryError, with nothing left running. */
  async start(settings: Settings): Promise<void> {
    await this.close();
    this.#progress(`Fetching ${settings.model}`, 0);
    const files = await this.shelf.open(settings.model, ({ file, bytes, totalBytes }) =>
      this.#progress(
        `Fetching ${settings.model}: ${file}, ${megabytes(bytes)}`,
        totalBytes && bytes / totalBytes,
      ),
    );
    const cluster = await startCluster(runConfig(settings), {
      files,
      models: this.shelf.files,
      leastBlocks: SPARE_BLOCKS,
      onBuild: (slow) =>
        this.#progress(
          `Starting ${settings.prefill + settings.decode} engines with ${settings.model}, each on its own WebGPU device.${slow}`,
          null,
        ),
    }).catch((error: unknown) => {
      if (error instanceof ModelError) this.shelf.forget(settings.model);
      throw error;
    });
    const { prefill, decode } = cluster.settings;
    this.#largest = { prefill: prefill.numBlocks, decode: decode.numBlocks };
    try {
      await cluster.configure({ ...policy(settings), ...(await this.#costs(cluster, settings)) });
    } catch (error) {
      await cluster.close();
      throw error;
    }
    const recorder = new Recorder(cluster, this.#emit, systemClock, this.#originMs);
    this.#running = { cluster, recorder };
    this.#started = settings;
    await recorder.poll();
  }

  /** True if the running engines can take these settings. */
  canChangeTo(settings: Settings): boolean {
    const before = this.#started;
    if (!before || !this.#running) return false;
    return (
      needsNewEngines.every((key) => before[key] === settings[key]) &&
      // A preset's weights depend on the seed; a checkpoint uses it only for sampling.
      (before.seed === settings.seed || this.shelf.files.has(settings.model)) &&
      settings.pBlocks <= this.#largest.prefill &&
      settings.dBlocks <= this.#largest.decode
    );
  }

  /**
   * Reconfigures and empties the engines; only while nothing runs. Measurements pass a `change` of their own, which runs
   * without the store: it would provide the KV that is to be computed or pulled.
   */
  async configure(settings: Settings, change: PolicyChange | null = null): Promise<void> {
    const running = this.#running;
    if (!running) return;
    await this.#joining;
    await this.revive();
    await this.#count(running, settings);
    const costs = change && 'costProfile' in change ? {} : await this.#costs(running.cluster, settings);
    const without: PolicyChange = change ? { connector: { name: 'NixlConnector' }, ...change } : {};
    await running.cluster.configure({ ...policy(settings), ...costs, ...without });
    running.recorder.machine();
    await running.recorder.poll();
  }

  /** Scales to the settings' counts. Does not wait for holds, since the engines are emptied next anyway. */
  async #count({ cluster }: { cluster: EngineCluster }, { prefill, decode }: Settings): Promise<void> {
    if (countOf(cluster, 'prefill') === prefill && countOf(cluster, 'decode') === decode) return;
    this.#progress(`Changing to ${prefill} P and ${decode} D`, null);
    await cluster.scale({ prefill, decode }, { drain: 'drop', holdsMs: 0 });
  }

  /** Scales to the settings' counts while turns run. Throws the cluster's errors. */
  async scale({ prefill, decode, drain }: Settings): Promise<void> {
    const running = this.#running;
    if (!running) return;
    const { cluster, recorder } = running;
    const scaled = this.#joining.then(() => cluster.scale({ prefill, decode }, { ...WAIT_30S, drain }));
    const grows = prefill > countOf(cluster, 'prefill') || decode > countOf(cluster, 'decode');
    // An engine that leaves may take long, and the cluster itself refuses changes until then; only joining is awaited.
    if (grows) this.#joining = scaled.catch(() => {});
    try {
      await scaled;
      if (grows) findCode('engines');
    } catch (error) {
      // New engines with the right counts have replaced these.
      if (running !== this.#running) return;
      throw error;
    }
    recorder.machine();
    await recorder.poll();
  }

  /** Engines of each role, without those that are leaving. */
  get counts(): Pick<Settings, 'prefill' | 'decode'> {
    const engines = this.#running?.cluster.members.staying ?? [];
    return { prefill: countOf({ engines }, 'prefill'), decode: countOf({ engines }, 'decode') };
  }

  /** Restarts engines that have ended. */
  async revive(): Promise<void> {
    const running = this.#running;
    if (!running) return;
    const dead = running.cluster.engines.filter((engine) => engine.dead);
    if (dead.length === 0) return;
    const names = dead.map(({ engineId }) => engineId).join(' and ');
    this.#progress(`Restarting ${names}`, null);
    await running.cluster.revive();
    findCode('engines');
    await running.recorder.poll();
  }

  async kill(engineId: string): Promise<void> {
    await this.#running?.cluster.engines.find((engine) => engine.engineId === engineId)?.shutdown();
  }

  async close(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    running?.recorder.detach();
    await running?.cluster.close();
  }

  /** The initial cost profile of the cost-aware policy, measured here once per model, block size, number types and link. */
  async #costs(cluster: EngineCluster, settings: Settings): Promise<Pick<PolicyChange, 'costProfile'>> {
    if (settings.pullPolicy === 'threshold') return { costProfile: null };
    const { model, blockSize, weightDtype, kvDtype, link } = settings;
    const key = JSON.stringify({ model, blockSize, weightDtype, kvDtype, link });
    let profile = this.#profiles.get(key);
    if (!profile) {
      await cluster.configure(policy(settings));
      const { calibrate } = await fetchCode(() => import('../../../src/lab/calibrate.ts'));
      profile = await calibrate(cluster, {
        version: 'the page',
        date: new Date().toISOString(),
        quick: true,
        onProgress: (done, total) =>
          this.#progress('Measuring the costs of pulling and computing', done / total),
      });
      this.#profiles.set(key, profile);
    }
    return { costProfile: profile };
  }

  #progress(message: string, progress: number | null): void {
    const atMs = systemClock.now() - this.#originMs;
    this.#emit({ kind: 'status', atMs, phase: 'starting', message, progress });
  }

  /** Polls the blocks, unless the page is hidden. */
  #poll(): void {
    if (!this.#running || document.visibilityState !== 'visible') return;
    const now = performance.now();
    if (!this.#isBusy() && now - this.#lastPollMs < POLL_IDLE_MS) return;
    this.#lastPollMs = now;
    void this.#running.recorder.poll();
  }
}

const countOf = ({ engines }: Pick<EngineCluster, 'engines'>, role: EngineRole): number =>
  engines.filter((engine) => engine.role === role).length;

function runConfig(settings: Settings) {
  const { mode, ...rest } = settings;
  // Folder settings are ignored if there is no folder.
  const isUsed = (key: string): boolean =>
    settings.storeDir !== null || !/^store(Dir|Ttl|Write|Prefetch)/.test(key);
  const shared = Object.fromEntries(
    Object.entries(rest).filter(([key]) => !pageOnly.includes(key) && isUsed(key)),
  );
  return parseRunConfig({
    ...shared,
    mode: [mode],
    // Engines are broken here on purpose. The conversation continues, because P computes what does not arrive.
    loadFailurePolicy: 'recompute',
  });
}

function policy(settings: Settings): PolicyChange {
  return {
    mode: settings.mode,
    recomputeThreshold: settings.threshold,
    prefixCaching: settings.prefixCaching,
    prefillBlocks: settings.pBlocks,
    decodeBlocks: settings.dBlocks,
    tokenCheck: settings.tokenCheck,
    allFullKv: settings.allFullKv,
    decoderTtlMs: settings.ttl * 1000,
    link: settings.link === null ? null : parseLink(settings.link),
    handover: settings.handover,
    routing: { name: settings.routing, parameters: {} },
    ...(settings.store === null && settings.storeDir === null ? {} : { connector: connectorOf(settings) }),
  };
}

function connectorOf(settings: Settings): NonNullable<PolicyChange['connector']> {
  const { connector } = pathChoice(settings.path, settings);
  return {
    ...connector,
    offloading: { ...connector.offloading!, promptOnly: settings.offloadPromptOnly },
  };
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
