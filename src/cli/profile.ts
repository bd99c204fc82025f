/** `run --profile`: one more run of the last mode with each kernel timed by the device, and its table. */
import type { Cluster } from '../cluster/types.ts';
import { engineProfile, type ProfileReport } from '../measure/profile.ts';
import { formatMs, WIDTH, wrap } from './format.ts';
import { renderTable, type TableStyle } from './table.ts';

export const NO_TIMESTAMPS =
  'No profile: this adapter has no timestamp-query, the device’s own clock; try another adapter (--adapter).';

/** Runs `serve` with every kernel timed. null where the adapter has no timestamp-query: nothing is run then. */
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

export function profileLines({ mode, engines }: ProfileReport, style: TableStyle): string[] {
  const lines = wrap(
    `Kernels of ${mode}, run once more with each kernel in a pass of its own: slower, and in no figure above. Times are the device's clock.`,
    WIDTH,
  );
  for (const { engine_id, clock_step_ns, ceilings, kernels } of engines) {
    const step = clock_step_ns === null ? 'unknown' : `${clock_step_ns} ns`;
    const about = `${engine_id}: smallest step of its clock ${step}; ceilings, measured just now: ${ceilings.gflops.toPrecision(3)} GFLOP/s of multiply-adds, ${ceilings.gbps.toPrecision(3)} GB/s of reads`;
    const rows = kernels.map(({ kernel, calls, ms, share, gflops, gbps, bound, of_ceiling }) => [
      kernel,
      String(calls),
      formatMs(ms),
      `${(100 * share).toFixed(1)}%`,
      bound === 'arithmetic' ? `${gflops.toPrecision(3)} GFLOP/s` : `${gbps.toPrecision(3)} GB/s`,
      `${(100 * of_ceiling).toFixed(0)}%`,
    ]);
    const columns = [
      { head: 'kernel', align: 'left' as const },
      { head: 'calls' },
      { head: 'ms' },
      { head: 'share' },
      { head: 'rate' },
      { head: 'of ceiling' },
    ];
    lines.push('', ...wrap(about, WIDTH), ...renderTable(columns, rows, style));
  }
  lines.push('', ...wrap(RATE_LEGEND, WIDTH));
  return lines;
}

const RATE_LEGEND =
  'rate: GFLOP/s where arithmetic would be the limit, else GB/s, each operand read and each result written once.';
