/**
 * What sliding windows save: a mode that ran is run once more with every block of every layer kept, and both are compared, in
 * memory, in bytes moved and in what they answered.
 */
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { BenchMode } from '../measure/bench-mode-schema.ts';
import { compareRuns } from '../measure/comparison.ts';
import type { RunReport } from '../measure/report.ts';
import type { WindowCosts, WindowsReport } from '../measure/windows-report.ts';
import { type PoolNeeds, poolFor } from './pools.ts';

/** The pool that has too few blocks for these turns with all KV kept, in words; null: both have enough. `outputTokens`: of a turn, at most. */
export function lacksForAllKv(
  options: PoolNeeds & Pick<ClusterOptions, 'prefill' | 'decode'>,
  turns: readonly Pick<RunReport['turns'][number], 'prompt_tokens'>[],
  outputTokens: number,
): string | null {
  const { maxModelLen, prefill, decode } = options;
  const needed = (tokens: number) => poolFor(tokens, { ...options, allFullKv: true });
  const prompt = Math.max(...turns.map((turn) => turn.prompt_tokens));
  // The last token generated never gets KV.
  const most = Math.min(prompt + outputTokens, maxModelLen) - 1;
  if (prefill.numBlocks < needed(prompt))
    return `${needed(prompt)} blocks, and --p-blocks is ${prefill.numBlocks}`;
  if (decode.numBlocks < needed(most)) return `${needed(most)} blocks, and --d-blocks is ${decode.numBlocks}`;
  return null;
}

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
      windowed: windowCosts(windowed.summary),
      all_full: windowCosts(allFull.summary),
      logits_identical: compareRuns([windowed, allFull], null)!.logits_identical,
    };
  } finally {
    await cluster.configure({ allFullKv: false });
  }
}

/** What one way took, as a report sums it up. */
export const windowCosts = (
  of: Pick<RunReport['summary'] | BenchMode, 'peak_kv_bytes' | 'bytes_p_to_d' | 'bytes_d_to_p'>,
): WindowCosts => ({
  peak_kv_bytes: of.peak_kv_bytes ?? { prefill: 0, decode: 0 },
  bytes_p_to_d: of.bytes_p_to_d ?? 0,
  bytes_d_to_p: of.bytes_d_to_p ?? 0,
});
