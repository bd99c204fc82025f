/** Costs that were fitted to a report, in sentences. */
import type { FittedReport } from '../../simulate/costs/fit-report.ts';
import type { Output } from '../deps.ts';
import { formatError, formatMs, formatPercent, plural } from '../format.ts';
import { printer } from '../table.ts';

export function printFitted(
  { file, requests, medianError, worst, notes }: FittedReport,
  out: Output,
  color: boolean,
): void {
  const { say, c } = printer(out, color);
  const { step, reply_ms } = file;
  say(`Fitted: ${file.name}.`, c.bold);
  say(
    `A step ${formatMs(step.fixed_ms)} ms + ${step.ms_per_prefill_token.toPrecision(3)} a prompt token + ${step.ms_per_prefill_context.toPrecision(3)} for each token before it + ${step.ms_per_decode.toPrecision(3)} a decoding request + ${step.ms_per_decode_context.toPrecision(3)} for each token before it; ${formatMs(reply_ms)} ms of TTFT besides.`,
  );
  say(
    `TTFT: ${plural(requests.ttft, 'request')}, off by ${formatPercent(medianError.ttft)} in the median and by ${formatError(worst.error)} at its worst (${worst.what}). Time a token: ${plural(requests.tpot, 'request')}, off by ${formatPercent(medianError.tpot)} in the median.`,
  );
  for (const note of notes) say(note, c.yellow);
}
