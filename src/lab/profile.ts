/** Runs work again with each kernel timed by the device. */
import type { Cluster } from '../fleet/types.ts';
import { engineProfile, type ProfileReport } from '../measure/spans/profile.ts';

/** Runs `serve` with every kernel timed. null, without running it, if the adapter has no timestamp-query. */
export async function profileKernels(
  cluster: Cluster,
  mode: string,
  serve: () => Promise<unknown>,
): Promise<ProfileReport | null> {
  if (!(await cluster.setTiming('kernels'))) return null;
  try {
    await serve();
    const engines = (await cluster.takeKernelTimes()).filter(({ totals }) => totals.length > 0);
    return { mode, engines: engines.map(engineProfile) };
  } finally {
    await cluster.setTiming(null);
  }
}
