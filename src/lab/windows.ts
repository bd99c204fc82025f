/**
 * Measures what sliding windows save: runs a mode again with all blocks of all layers kept, and compares memory, bytes moved
 * and logits.
 */
import type { Cluster, ClusterOptions } from '../fleet/types.ts';
import type { BenchMode } from '../measure/schemas/bench-mode-schema.ts';
import type { RunReport } from '../measure/schemas/report.ts';
import type { WindowCosts, WindowsReport } from '../measure/schemas/windows-report.ts';
import { compareRuns } from '../measure/summaries/comparison.ts';
import { type PoolNeeds, poolFor } from './pools.ts';

/**
 * Describes the pool that has too few blocks for these turns with all KV kept; null: both have enough. `outputTokens`: most of
 * a turn.
 */
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

/** `serve` runs the mode again. Turns `allFullKv` off again afterwards. */
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

/** One run's memory and bytes moved, for the report. */
export const windowCosts = (of: Pick<RunReport['summary'] | BenchMode, keyof WindowCosts>): WindowCosts => ({
  peak_kv_bytes: of.peak_kv_bytes ?? { prefill: 0, decode: 0 },
  bytes_p_to_d: of.bytes_p_to_d ?? 0,
  bytes_d_to_p: of.bytes_d_to_p ?? 0,
  ...(of.bytes_from_store !== undefined && { bytes_from_store: of.bytes_from_store }),
  ...(of.bytes_to_store !== undefined && { bytes_to_store: of.bytes_to_store }),
});
