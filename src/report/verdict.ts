/** What a run comes to, in sentences: what was saved, on which adapter, whether the modes agree, and where they do not. */
import { keptBy } from '../config/store.ts';
import { formatBytes, formatCount, formatMb, formatMs, plural } from '../measure/format.ts';
import { outcomeOf, SINGLE_NOISE, TIE, within } from '../measure/outcome.ts';
import type { Disagreement, Report, RunReport } from '../measure/report.ts';
import type { BenchWindows, WindowsReport } from '../measure/windows-report.ts';

export const THROTTLED = 'throttled (modelled link)';
/** Of a run whose hand-over is not vLLM's. */
export const STREAMED = "streamed hand-over (kvferry's own)";

export const isStreamed = ({ config }: { config: Readonly<Record<string, unknown>> }): boolean =>
  config.handover === 'streamed';

interface Named {
  adapter: { name: string; backend: string; software: boolean; arithmetic?: string | undefined };
}

/** 'SwiftShader …' with what kind it is, and how it computed where that is another rounding. Of a server nothing is known. */
export function adapterName({ adapter }: Named): string {
  if (adapter.backend === 'unknown') return adapter.name;
  const f16 = adapter.arithmetic === 'f16' ? '; f16 products, f32 sums: other logits than f32' : '';
  return `${adapter.name} (${adapter.backend}, ${adapter.software ? 'software' : 'GPU'}${f16})`;
}

/** null unless both disaggregated modes ran and had turns after the first. */
export function savings(report: Report): string | null {
  const { comparison, link } = report;
  const speedup = comparison?.ttft_speedup;
  if (!comparison || !speedup) return null;
  const mean = (mode: string): number =>
    report.runs.find((run) => run.mode === mode)?.summary.ttft_later_turns_ms?.mean ?? 0;
  const total = report.runs.find(({ mode }) => mode === 'unidirectional')?.summary.computed_tokens ?? 0;
  const saved = comparison.computed_tokens_saved ?? 0;
  if (report.runs.every(({ summary }) => summary.pulled_tokens === 0)) {
    const how =
      report.config.pullPolicy === 'cost-aware'
        ? 'no pull was predicted to be quicker.'
        : `lower --threshold (now ${String(report.config.threshold)}) to pull.`;
    return `Nothing was pulled, so bidirectional and unidirectional did the same work: ${how}`;
  }
  const kept = keptBelow(report);
  if (kept) return kept;
  if (pulledNothingFromD(report))
    return 'Nothing was pulled from D: in both modes P loaded from the store or computed, so bidirectional and unidirectional did the same work.';
  const before = formatMs(mean('unidirectional'));
  const after = formatMs(mean('bidirectional'));
  const verdict = {
    ahead: `${speedup.mean.toFixed(2)}x faster`,
    behind: `${(1 / speedup.mean).toFixed(2)}x slower: here, computing again was cheaper`,
    tie: TIE,
  }[outcomeOf(within(speedup.mean, SINGLE_NOISE))];
  return (
    `Pulling D's KV back spared P ${formatCount(saved)} of ${formatCount(total)} prompt tokens: from turn 2 on, mean TTFT ` +
    `${after} ms instead of ${before} ms (${verdict}), on ${adapterName(report)}` +
    `${link ? `, ${THROTTLED}: ${link.name}` : ''}.`
  );
}

/** Whatever a store gave. */
export const pulledNothingFromD = ({ runs }: Report): boolean =>
  runs.every(({ summary }) => summary.bytes_d_to_p === 0);

/** Where a later mode found below the store what the ones before it had saved: its times are another work's. */
export function keptBelow({ config, runs }: Report): string | null {
  const place = config.storeDir ?? config.storeUrl ?? null;
  const loaded = runs.slice(1).some(({ summary }) => (summary.bytes_from_store ?? 0) > 0);
  if (place === null || !loaded) return null;
  return `The times of the modes are not compared: ${keptBy(config)} keeps KV from one mode to the next, and later ones loaded what was there; leave it out, or give one --mode.`;
}

/** Whether a mode had a store beside it. */
export const hasStore = (runs: readonly RunReport[]): boolean =>
  runs.some(({ summary }) => summary.bytes_from_store !== undefined);

/** null without a store. */
export function storeUse({ runs, config }: Report): string | null {
  const used = runs.findLast(({ summary }) => summary.bytes_from_store !== undefined);
  if (!used) return null;
  const { bytes_from_store: from = 0, bytes_to_store: to = 0, two_hop_bytes: twice = 0 } = used.summary;
  const what =
    config.offloadPromptOnly === false
      ? 'what D generated is in it too'
      : "what D generated is not in it (offload_prompt_only, vLLM's default; --no-offload-prompt-only saves that too)";
  const amount = (bytes: number): string => (bytes === 0 ? 'nothing' : `${formatMb(bytes)} MB`);
  const hops = twice === 0 ? '' : `, ${amount(twice)} by two hops`;
  return `Store, in ${used.mode}: ${amount(to)} saved and ${amount(from)} loaded${hops}; ${what}.`;
}

/** null for a model without windows, or one whose run kept everything. */
export function windowSavings(windows: WindowsReport | BenchWindows | undefined): string | null {
  if (!windows) return null;
  const { windowed, all_full: full, mode } = windows;
  const moved = (costs: typeof full) => costs.bytes_p_to_d + costs.bytes_d_to_p;
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
  const why = moved(windowed) === moved(full) ? ': no move reached further back than a window' : '';
  const bytes = moved(full) > 0 ? `; moved were ${instead(moved(windowed), moved(full))}${why}` : '';
  const [identical, how, asEqual] =
    'logits_identical' in windows
      ? [windows.logits_identical, 'run after it', 'the same tokens from the same logits']
      : [windows.tokens_identical, 'in turns with it', 'the same tokens'];
  const same = identical ? asEqual : 'BUT THE ANSWERS DIFFER, which they must not';
  return `Sliding windows, ${mode}, against all KV kept (--all-full-kv), ${how}: KV in use at most, ${memory.join(', ')}${bytes}; ${same}.`;
}

export function agreement(report: Report): { agree: boolean; sentence: string } {
  const { comparison, runs, windows } = report;
  if (windows && !windows.logits_identical) {
    return { agree: false, sentence: 'THE WINDOWS CHANGE WHAT IS ANSWERED: see above.' };
  }
  if (!comparison) {
    const only = runs[0];
    return {
      agree: true,
      sentence: `Only ${only?.mode ?? 'nothing'} ran: nothing to compare it with; leave --mode out for all three.`,
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
    token: 'another token',
    logits: 'the same token from other logits',
    length: 'an answer of another length',
  }[place.what];
  const size =
    difference === null ? '' : `; the largest difference of logits is ${difference.toPrecision(3)}`;
  return (
    `THE MODES DISAGREE: ${place.mode} first parts from ${place.reference} at conversation ${place.conversation_id}, ` +
    `turn ${place.turn}, output token ${place.token_index + 1}: ${what}${size}.`
  );
}
