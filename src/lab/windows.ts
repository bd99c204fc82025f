/**
 * What sliding windows save: a mode that ran is run once more with every block of every layer kept, and both are compared, in
 * memory, in bytes moved and in what they answered.
 */
import type { Cluster } from '../fleet/types.ts';
import { compareRuns } from '../measure/comparison.ts';
import type { RunReport, WindowsReport } from '../measure/report.ts';

/** Whether there is anything to compare: some layers have windows, and blocks leave them. */
export const hasWindows = ({ settings }: Cluster): boolean =>
  settings.allFullKv !== true && (settings.kvCacheGroups ?? []).some(({ kind }) => kind === 'sliding');

/** `serve` runs the mode again. The cluster is left as it was. */
export async function compareWindows(
  cluster: Cluster,
  windowed: RunReport,
  serve: () => Promise<RunReport>,
): Promise<WindowsReport> {
  await cluster.configure({ allFullKv: true });
  try {
    const allFull = await serve();
    return {
      mode: windowed.mode,
      windowed: costsOf(windowed),
      all_full: costsOf(allFull),
      logits_identical: compareRuns([windowed, allFull], null)!.logits_identical,
    };
  } finally {
    await cluster.configure({ allFullKv: false });
  }
}

const costsOf = ({ summary }: RunReport): WindowsReport['windowed'] => ({
  peak_kv_bytes: summary.peak_kv_bytes ?? { prefill: 0, decode: 0 },
  bytes_p_to_d: summary.bytes_p_to_d,
  bytes_d_to_p: summary.bytes_d_to_p,
});
