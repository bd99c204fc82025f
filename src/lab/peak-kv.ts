import type { ClusterInfo } from '../fleet/types.ts';
import type { EngineStats } from '../host/engine-report.ts';
import type { EngineRole } from '../router/engine-client.ts';

/** Peak bytes of KV in use since the engines were last configured, summed over the engines of each role. */
export function peakKvBytes(
  { engines, model }: Pick<ClusterInfo, 'engines' | 'model'>,
  stats: readonly Pick<EngineStats, 'engineId' | 'peakUsedBlocks'>[],
): Record<EngineRole, number> {
  const peaks = { prefill: 0, decode: 0 };
  for (const { engineId, peakUsedBlocks } of stats) {
    const role = engines.find((engine) => engine.engineId === engineId)?.role ?? 'decode';
    peaks[role] += peakUsedBlocks * model.blockBytes;
  }
  return peaks;
}
