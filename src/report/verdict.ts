/** A run's verdicts in sentences: what pulling saved, on which adapter, and whether the modes agree. */
import { NO_PEERS, readsFromPeers } from '../config/kv-transfer.ts';
import { keepsKv, keptBy } from '../config/store.ts';
import { formatBytes, formatCount, formatMb, formatMs, plural } from '../measure/format.ts';
import { outcomeOf, SINGLE_NOISE, TIE, within } from '../measure/outcome.ts';
import type { BenchMode } from '../measure/schemas/bench-mode-schema.ts';
import type { BenchReport } from '../measure/schemas/bench-report.ts';
import type { Disagreement, Report, RunReport } from '../measure/schemas/report.ts';
import type { BenchWindows, WindowsReport } from '../measure/schemas/windows-report.ts';
import { loadedKeptKv } from '../measure/summaries/comparison.ts';
import { throttledLabel } from './throttled.ts';

/** Label for runs whose handover is not vLLM's. */
export const STREAMED = "streamed handover (kvferry's own)";

export const isStreamed = ({ config }: { config: Readonly<Record<string, unknown>> }): boolean =>
  config.handover === 'streamed' && readsFromPeers(config);

/** How a run's transfers were throttled; null: they were not. */
export const throttledIn = ({ link, config }: Pick<Report, 'link' | 'config'>): string | null =>
  throttledLabel({ link: link?.name ?? null, config });

type StoreBytes = Pick<BenchMode, 'bytes_from_store' | 'bytes_to_store' | 'two_hop_bytes'>;

interface Named {
  adapter: { name: string; backend: string; software: boolean; arithmetic?: string | undefined };
}

/** The adapter's name with its backend and kind, and the arithmetic if it changes rounding. For a server, only its name. */
export function adapterName({ adapter }: Named): string {
  if (adapter.backend === 'unknown') return adapter.name;
  const f16 = adapter.arithmetic === 'f16' ? '; f16 products, f32 sums: logits differ from f32' : '';
  return `${adapter.name} (${adapter.backend}, ${adapter.software ? 'software' : 'GPU'}${f16})`;
}

/** What pulling saved; null unless both disaggregated modes ran and had turns after the first. */
export function savings(report: Report): string | null {
  const { comparison } = report;
  const speedup = comparison?.ttft_speedup;
  const note = persistedKvNote(report);
  if (note) return note;
  if (!comparison || !speedup) return null;
  const mean = (mode: string): number =>
    report.runs.find((run) => run.mode === mode)?.summary.ttft_later_turns_ms?.mean ?? 0;
  const total = report.runs.find(({ mode }) => mode === 'unidirectional')?.summary.computed_tokens ?? 0;
  const saved = comparison.computed_tokens_saved ?? 0;
  if (report.runs.every(({ summary }) => summary.pulled_tokens === 0)) {
    const { pullPolicy, threshold } = report.config;
    let how = `lower --threshold (now ${String(threshold)}) to pull`;
    if (pullPolicy === 'cost-aware') how = 'no pull was predicted to be faster';
    if (!readsFromPeers(report.config)) how = NO_PEERS;
    return `Nothing was pulled, so bidirectional and unidirectional did the same work; ${how}.`;
  }
  if (pulledNothingFromD(report))
    return 'Nothing was pulled from D. In both modes P loaded from the store or computed, so bidirectional and unidirectional did the same work.';
  const throttled = throttledIn(report);
  const before = formatMs(mean('unidirectional'));
  const after = formatMs(mean('bidirectional'));
  const verdict = {
    ahead: `${speedup.mean.toFixed(2)}x faster`,
    behind: `${(1 / speedup.mean).toFixed(2)}x slower: recomputing was cheaper here`,
    tie: TIE,
  }[outcomeOf(within(speedup.mean, SINGLE_NOISE))];
  return (
    `Pulling D's KV back saved P ${formatCount(saved)} of ${formatCount(total)} prompt tokens: from turn 2 on, mean TTFT was ` +
    `${after} ms instead of ${before} ms (${verdict}), on ${adapterName(report)}` +
    `${throttled ? `, ${throttled}` : ''}.`
  );
}

/** Whether no mode pulled from D, regardless of loads from a store. */
export const pulledNothingFromD = ({ runs }: Report): boolean =>
  runs.every(({ summary }) => summary.bytes_d_to_p === 0);

/** A warning if a later mode loaded KV that an earlier one had saved to the folder or server, so times are not comparable. */
export function persistedKvNote(report: Report): string | null {
  if (!loadedKeptKv(report)) return null;
  return `The times of the modes are not compared: ${keptBy(report.config)} keeps KV from one mode to the next, and later modes loaded KV that earlier ones had saved; leave it out, or give one --mode.`;
}

/** The same for a benchmark. An older report does not say what was loaded. */
export function keptKvNote({ config, experiments }: BenchReport): string | null {
  const modes = Object.values(experiments).flatMap((each) => Object.values(each.modes));
  if (!keepsKv(config) || modes.every(({ bytes_from_store }) => bytes_from_store === 0)) return null;
  return `The times of the modes are not compared: ${keptBy(config)} keeps KV from one mode and round to the next, and it was loaded; leave it out, or give one --mode.`;
}

/** Whether any mode had a store. */
export const hasStore = (runs: readonly RunReport[]): boolean =>
  runs.some(({ summary }) => summary.bytes_from_store !== undefined);

/** What the store saved and loaded; null without a store. */
export function storeUse({ runs, config }: Report): string | null {
  const used = runs.findLast(({ summary }) => summary.bytes_from_store !== undefined);
  if (!used) return null;
  const what =
    config.offloadPromptOnly === false
      ? 'it includes what D generated'
      : "it excludes what D generated (offload_prompt_only, vLLM's default; --no-offload-prompt-only saves that too)";
  return `${storeBytes(used.mode, used.summary)}; ${what}.`;
}

/** What a mode saved to the store and loaded from it, without a full stop. */
export function storeBytes(
  label: string,
  { bytes_from_store: from = 0, bytes_to_store: to = 0, two_hop_bytes: twice = 0 }: StoreBytes,
): string {
  const amount = (bytes: number): string => (bytes === 0 ? 'nothing' : `${formatMb(bytes)} MB`);
  const hops = twice === 0 ? '' : `, ${amount(twice)} by two hops`;
  return `Store, in ${label}: ${amount(to)} saved and ${amount(from)} loaded${hops}`;
}

/** What sliding windows saved; null without a comparison run. */
export function windowSavings(
  windows: WindowsReport | BenchWindows | undefined,
  config: Report['config'],
): string | null {
  if (!windows) return null;
  const { windowed, all_full: full, mode } = windows;
  const instead = (with_: number, without: number): string =>
    with_ === without
      ? `${formatBytes(with_)} either way`
      : `${formatBytes(with_)} instead of ${formatBytes(without)} (${Math.round(100 * (1 - with_ / without))}% less)`;
  const memory = (['prefill', 'decode'] as const)
    .filter((role) => full.peak_kv_bytes[role] > 0)
    .map(
      (role) =>
        `${role === 'prefill' ? 'P' : 'D'} ${instead(windowed.peak_kv_bytes[role], full.peak_kv_bytes[role])}`,
    );
  const movement = (name: string, bytes: (costs: typeof full) => number): string => {
    const [some, all] = [bytes(windowed), bytes(full)];
    const why = name === 'transfers' && some === all ? ': no transfer reached back beyond a window' : '';
    return some + all > 0 ? `; ${name} ${instead(some, all)}${why}` : '';
  };
  // What one run saved to a folder or server, the other one loads.
  const bytes = keepsKv(config)
    ? `; transfers are not compared, because ${keptBy(config)} keeps KV from one run to the next`
    : movement('transfers', (costs) => costs.bytes_p_to_d + costs.bytes_d_to_p) +
      movement('saved to the store', (costs) => costs.bytes_to_store ?? 0) +
      movement('loaded from it', (costs) => costs.bytes_from_store ?? 0);
  const [identical, how, asEqual] =
    'logits_identical' in windows
      ? [windows.logits_identical, 'run afterwards', 'the same tokens from the same logits']
      : [windows.tokens_identical, 'in alternation', 'the same tokens'];
  const same = identical ? asEqual : 'BUT THE ANSWERS DIFFER, which must not happen';
  return `Sliding windows, ${mode}, compared with all KV kept (--all-full-kv), ${how}: peak KV in use, ${memory.join(', ')}${bytes}; ${same}.`;
}

export function agreement(report: Report): { agree: boolean; sentence: string } {
  const { comparison, runs, windows } = report;
  if (windows && !windows.logits_identical) {
    return { agree: false, sentence: 'SLIDING WINDOWS CHANGE THE ANSWERS: see above.' };
  }
  if (!comparison) {
    const only = runs[0];
    return {
      agree: true,
      sentence: `Only ${only?.mode ?? 'nothing'} ran, so there is nothing to compare; leave --mode out to run all three.`,
    };
  }
  if (comparison.logits_identical) {
    return {
      agree: true,
      sentence: `All ${runs.length} modes agree: the same ${plural(comparison.compared_tokens, 'token')} from the same logits, bit for bit.`,
    };
  }
  return {
    agree: false,
    sentence: disagreement(comparison.first_disagreement!, comparison.max_logit_difference),
  };
}

function disagreement(place: Disagreement, difference: number | null): string {
  const what = {
    token: 'a different token',
    logits: 'the same token from different logits',
    length: 'an answer of a different length',
  }[place.what];
  const size = difference === null ? '' : `; the largest logit difference is ${difference.toPrecision(3)}`;
  return (
    `THE MODES DISAGREE: ${place.mode} first differs from ${place.reference} at conversation ${place.conversation_id}, ` +
    `turn ${place.turn}, output token ${place.token_index + 1}: ${what}${size}.`
  );
}
