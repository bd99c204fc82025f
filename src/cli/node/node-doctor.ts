/** `kvferry doctor`'s probes of this machine. */
import { existsSync } from 'node:fs';
import { EngineCluster } from '../../fleet/cluster.ts';
import type { CopyRate } from '../../lab/copy-rates.ts';
import { quantile } from '../../measure/statistics.ts';
import { probeAll } from '../../platform/node/adapters.ts';
import { nodePlatform } from '../../platform/node.ts';
import { DEFAULT_CHUNK_BYTES } from '../../transport/chunks.ts';
import type { CopyRateFinding, DoctorProbes } from '../doctor/doctor-types.ts';

/** Large enough for the stages to overlap. */
const COPY = { bytes: 4 * 2 ** 20, chunkBytes: DEFAULT_CHUNK_BYTES, rounds: 5 } as const;

export const nodeDoctor: DoctorProbes = {
  adapters: probeAll,
  backend: nodePlatform.backend,
  nvidia: () => existsSync('/proc/driver/nvidia/version') || existsSync('/dev/nvidiactl'),

  async copyRates(cluster) {
    if (!(cluster instanceof EngineCluster)) return null;
    const { measureCopyRate } = await import('../../lab/copy-rates.ts');
    const prefill = cluster.engine('prefill');
    const decode = cluster.engine('decode');
    const numBlocks = Math.min(...cluster.info.engines.map((engine) => engine.numBlocks));
    return [
      finding('P→shared→D', await measureCopyRate(prefill, decode, numBlocks, COPY)),
      finding('D→shared→P', await measureCopyRate(decode, prefill, numBlocks, COPY)),
    ];
  },
};

function finding(direction: CopyRateFinding['direction'], rate: CopyRate): CopyRateFinding {
  const gbps = (ms: readonly number[]): number => rate.bytes / quantile(ms, 0.5) / 1e6;
  return { direction, bytes: rate.bytes, gbps: gbps(rate.pipelinedMs), byHandGbps: gbps(rate.byHandMs) };
}
