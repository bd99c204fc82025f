/**
 * Connects an autoscaler (src/router/autoscale) to a cluster: feeds it what the engines report and how long turns
 * took, and has its decisions carried out.
 */
import { createBlockHasher } from '../engine/block-hash.ts';
import type { Clock } from '../engine/types.ts';
import { messageOf } from '../errors.ts';
import { systemClock } from '../platform/clock.ts';
import { type AutoscaleDecision, AutoscaleLoop, drive } from '../router/autoscale/loop.ts';
import type { AutoscaleChoice } from '../router/autoscale/registry.ts';
import { PrefixIndex } from '../router/prefix-index.ts';
import { EngineViews, type ViewedEngine } from '../router/views.ts';
import type { EngineCluster } from './cluster.ts';
import { HASH_SEED } from './options.ts';
import type { ClusterOptions } from './types.ts';

/** A cluster of engines in threads, or a simulated one. */
export interface AutoscaledCluster extends Pick<EngineCluster, 'onLoad' | 'onNotice' | 'scale'> {
  readonly settings: Pick<ClusterOptions, 'maxNumSeqs' | 'blockSize' | 'signalAgeMs'>;
  readonly members: {
    /** The engines that may get turns, as the router sees them. */
    readonly staying: readonly ViewedEngine[];
    readonly changing: boolean;
    atClose(end: () => void): void;
  };
}

export interface AutoscaleWatcher {
  /** `acts`: the decision is carried out now. */
  decided?(decision: AutoscaleDecision, acts: boolean): void;
  /** A change that it asked for could not be made; it continues. */
  failed?(message: string): void;
}

/** Runs until the returned function is called or the cluster is closed. Throws ConfigError. */
export function startAutoscaler(
  cluster: AutoscaledCluster,
  choice: AutoscaleChoice,
  watcher: AutoscaleWatcher = {},
  clock: Clock = systemClock,
): () => void {
  const { maxNumSeqs, blockSize, signalAgeMs = 0 } = cluster.settings;
  const loop = new AutoscaleLoop(choice, maxNumSeqs);
  const hashing = { hasher: createBlockHasher(HASH_SEED), blockSize };
  const views = new EngineViews(new PrefixIndex(hashing), () => signalAgeMs);
  const stop = new AbortController();
  const ends = [
    cluster.onLoad(({ engineId, load }) => views.load(engineId, load)),
    cluster.onNotice((notice) => {
      if (notice.kind === 'turn ended') loop.turnEnded(notice.result, clock.now());
      else if (notice.kind === 'left' || notice.kind === 'dead') views.forget(notice.engineId);
    }),
    () => stop.abort(),
  ];
  void drive(loop, {
    clock,
    signal: stop.signal,
    views: (nowMs) => views.of(cluster.members.staying, nowMs),
    scale: (target, why) => cluster.scale(target, undefined, why),
    changing: () => cluster.members.changing,
    report: (event) => {
      if (event.kind === 'decided') watcher.decided?.(event.decision, event.acts);
      else watcher.failed?.(messageOf(event.error));
    },
  });
  const stopAll = (): void => {
    for (const end of ends.splice(0)) end();
  };
  cluster.members.atClose(stopAll);
  return stopAll;
}
