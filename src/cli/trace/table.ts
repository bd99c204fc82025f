/** Describes a trace with a table and sentences. */
import type { TraceFormat } from '../../config/trace-formats.ts';
import { formatCount, formatPercent, plural } from '../../measure/format.ts';
import { left, right } from '../../report/document.ts';
import type { Spread, TraceSummary } from '../../workload/traces/summary.ts';
import { renderTable, type TableStyle } from '../output/table.ts';

export function lengthTable({ input_tokens, output_tokens }: TraceSummary, style: TableStyle): string[] {
  const row = (name: string, { mean, p50, p90, p99, max }: Spread): string[] => [
    name,
    ...[mean, p50, p90, p99, max].map((n) => formatCount(Math.round(n))),
  ];
  return renderTable(
    [left('tokens'), ...right('mean', 'p50', 'p90', 'p99', 'longest')],
    [row('prompts', input_tokens), row('answers', output_tokens)],
    style,
  );
}

export function traceSentences(summary: TraceSummary, format: TraceFormat): string[] {
  const { requests, conversations, follow_ups, follow_up, reuse_bound, blocks } = summary;
  const follows =
    follow_ups === 0
      ? 'none continues an earlier one.'
      : `${plural(follow_ups, 'turn')} (${formatPercent(follow_ups / requests)}) ${follow_ups === 1 ? 'continues' : 'continue'} an earlier one, up to turn ${summary.deepest_turn}.`;
  const found = [
    `${plural(requests, 'request')} in ${plural(conversations, 'conversation')}: ${follows}`,
    timesOf(summary, format),
  ];
  if (follow_up) {
    const lacks =
      follow_up.generated_share === null
        ? 'P lacks nothing'
        : `D has ${formatPercent(follow_up.generated_share)} of what P lacks (median)`;
    const gap = follow_up.gap_s
      ? ` It arrives ${Math.round(follow_up.gap_s.p50)} s after the previous turn in the median, ${Math.round(follow_up.gap_s.p90)} s at p90.`
      : '';
    found.push(
      `A continuing turn contains ${formatCount(Math.round(follow_up.generated_tokens))} tokens that D generated and ${formatCount(Math.round(follow_up.new_tokens))} new ones (means): ${lacks}.${gap}`,
    );
  }
  if (blocks)
    found.push(
      `${plural(blocks.in_prompts, 'block')} in prompts, ${formatCount(blocks.different)} different.`,
    );
  found.push(
    `Upper bound without eviction: ${formatPercent(reuse_bound.from_prompts)} of all prompt tokens were in earlier prompts, and ${formatPercent(reuse_bound.from_answers)} more in earlier answers.`,
  );
  return found;
}

function timesOf(summary: TraceSummary, format: TraceFormat): string {
  const { requests, timed_requests, duration_s, requests_per_second, requests_per_timestamp } = summary;
  if (format === 'conversations') return 'No times: --conversation-rate sets when conversations begin.';
  if (duration_s === null) return 'No times.';
  // For a short trace, whole seconds would contradict the rate.
  const seconds =
    duration_s < 10 ? String(Number(duration_s.toPrecision(2))) : formatCount(Math.round(duration_s));
  const over = `${seconds} s`;
  const times =
    timed_requests < requests
      ? `${formatCount(timed_requests)} of them ${timed_requests === 1 ? 'has' : 'have'} a time, over ${over}; the others follow an answer.`
      : `Over ${over}${requests_per_second === null ? '' : `, ${requests_per_second.toFixed(2)} per second`}.`;
  if (requests_per_timestamp === null || requests_per_timestamp <= 2) return times;
  return `${times} They arrive in bursts: ${requests_per_timestamp.toFixed(1)} per distinct timestamp.`;
}
