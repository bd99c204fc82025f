/** Runs episodes until enough faults have happened: `kvferry verify --faults`. Prints nothing. */
import type { Clock } from '../../engine/types.ts';
import { ConfigError } from '../../errors.ts';
import type { FaultKind } from '../../faults/schedule.ts';
import { FaultyWires } from '../../faults/wire.ts';
import { EngineCluster } from '../../fleet/cluster.ts';
import type { ClusterHooks } from '../../fleet/hooks.ts';
import { plainFleet } from '../../fleet/seats.ts';
import type { Cluster, ClusterOptions } from '../../fleet/types.ts';
import { ATTEMPTS } from '../../transport/deadlines.ts';
import { type EpisodeDeps, type EpisodeResult, FAULTS_EACH, runEpisode } from './episode.ts';
import { generateScripts } from './script.ts';
import { fewest } from './shrink.ts';
import { harmedCluster, Storm } from './storm.ts';
import { Tally } from './tally.ts';
import type { FaultReport, Violation } from './types.ts';

/** Short, so that blocks of a dead reader are freed soon and lost messages cost little; the rules do not depend on it. */
const LEASE_MS = 2000;
const SILENCE_MS = 2000;
/** A READ whose messages were lost keeps its blocks until it is aborted, which takes longest. Plus slack for a busy machine. */
export const DRAIN_MS = SILENCE_MS * ATTEMPTS + 10_000;
/** Stops after this many violations: more would add nothing new. */
const MOST_VIOLATIONS = 10;
/** Blocks of each pool: enough for all conversations of an episode. Many episodes use fewer. */
const POOL = 96;

export interface FaultRunOptions {
  /** Stops after the episode in which this many faults have happened. */
  faults: number;
  seed: number;
  /** 'scale-down' is left out with a single pair, whose engines cannot be scaled down. */
  kinds: readonly FaultKind[];
  /** The number of P and of D. */
  pairs: number;
  /** Injects only these faults of each episode's schedule, numbered from 1; null: all. */
  picks: readonly number[] | null;
  /** Milliseconds after which a caller counts as hanging. */
  patienceMs: number;
  /** Milliseconds within which everything must be freed once all callers have gone. */
  drainMs: number;
  clock: Clock;
  signal: AbortSignal;
  /** Base options; those that fault testing fixes are overridden. */
  cluster: ClusterOptions;
  start(options: ClusterOptions, hooks: ClusterHooks): Promise<Cluster>;
  onEpisode(happened: number, episodes: number, violations: readonly Violation[]): void;
}

/** Stops early after MOST_VIOLATIONS violations. Rejects with the signal's reason when it aborts. Throws ConfigError. */
export async function runFaults(options: FaultRunOptions): Promise<FaultReport> {
  const { clock, seed, pairs, picks, signal, patienceMs, drainMs } = options;
  const kinds = options.kinds.filter((kind) => kind !== 'scale-down' || pairs > 1);
  const wires = new FaultyWires();
  const storm = new Storm(clock, wires);
  const hooks = { wire: wires.wire, client: storm.client };
  const cluster = await options.start(stormOptions(options.cluster, pairs), hooks);
  if (!(cluster instanceof EngineCluster)) throw new ConfigError('faults need engines in threads');
  try {
    storm.attach(harmedCluster(cluster));
    const scripts = await generateScripts(cluster, 1, signal);
    const tally = new Tally();
    while (tally.happened < options.faults && tally.violations.length < MOST_VIOLATIONS && !signal.aborted) {
      // A run with this seed begins with the same episode, so it can be repeated.
      const episodeSeed = (seed + tally.episodes) % 2 ** 32;
      const deps = { cluster, storm, scripts, clock, kinds, picks, patienceMs, drainMs, signal };
      const result = await runEpisode(episodeSeed, deps);
      const first = tally.violations.length === 0;
      tally.add(episodeSeed, result);
      options.onEpisode(tally.happened, tally.episodes, tally.violations);
      if (result.found.length === 0) continue;
      if (!(await renewed(cluster))) break;
      // Shrinks only the first broken episode: with a frequent violation, shrinking all would take hours.
      if (first && !(await shrink(episodeSeed, result, deps, tally))) break;
    }
    signal.throwIfAborted();
    return { ...tally.report(seed, storm.enginesReplaced), pairs };
  } finally {
    await cluster.close();
  }
}

/** Finds fewer faults that break the episode again in the same way. false: the cluster can no longer be used. */
async function shrink(
  seed: number,
  broken: EpisodeResult,
  deps: EpisodeDeps & { cluster: EngineCluster },
  tally: Tally,
): Promise<boolean> {
  const kinds = new Set(broken.found.map(({ kind }) => kind));
  let last = broken;
  let usable = true;
  const breaks = async (picks: readonly number[]): Promise<boolean> => {
    if (!usable || deps.signal.aborted) return false;
    const result = await runEpisode(seed, { ...deps, picks });
    if (result.found.length > 0) usable = await renewed(deps.cluster);
    if (!result.found.some(({ kind }) => kinds.has(kind))) return false;
    last = result;
    return true;
  };
  const all = deps.picks ?? Array.from({ length: FAULTS_EACH }, (_, i) => i + 1);
  const picks = await fewest(all, breaks);
  if (picks.length < all.length) tally.shrunk(seed, picks, last);
  return usable;
}

/** Replaces all engines after a broken episode. false: that failed. */
async function renewed(cluster: EngineCluster): Promise<boolean> {
  try {
    await Promise.all(cluster.engines.map((engine) => engine.shutdown()));
    await cluster.revive();
    return true;
  } catch {
    return false;
  }
}

const stormOptions = (options: ClusterOptions, pairs: number): ClusterOptions => ({
  ...options,
  model: 'nano',
  weightSeed: 1,
  mode: 'bidirectional',
  blockSize: 16,
  prefill: { numBlocks: POOL, enablePrefixCaching: true },
  decode: { numBlocks: POOL, enablePrefixCaching: true },
  fleet: plainFleet({ prefill: pairs, decode: pairs }),
  maxNumBatchedTokens: 64,
  maxNumSeqs: 8,
  maxModelLen: 512,
  connector: { ...options.connector, nixl: { ...options.connector.nixl, leaseMs: LEASE_MS } },
  checksum: true,
  silenceMs: SILENCE_MS,
  poison: true,
});
