/** Prints costs that were fitted to a report. */

import { formatError, formatMs, formatPercent, plural } from '../../measure/format.ts';
import type { FittedReport } from '../../simulate/costs/fit-report.ts';
import type { Output } from '../deps.ts';
import { printer } from '../output/table.ts';

export function printFitted(
  { file, requests, medianError, worst, notes }: FittedReport,
  out: Output,
  color: boolean,
): void {
  const { say, c } = printer(out, color);
  const { step, reply_ms } = file;
  say(`Fitted: ${file.name}.`, c.bold);
  say(
    `A step takes ${formatMs(step.fixed_ms)} ms + ${step.ms_per_prefill_token.toPrecision(3)} per prompt token + ${step.ms_per_prefill_context.toPrecision(3)} per token before it + ${step.ms_per_decode.toPrecision(3)} per decoding request + ${step.ms_per_decode_context.toPrecision(3)} per token before it; TTFT has ${formatMs(reply_ms)} ms in addition.`,
  );
  say(
    `TTFT: ${plural(requests.ttft, 'request')}, median error ${formatPercent(medianError.ttft)}, largest ${formatError(worst.error)} (${worst.what}). TPOT: ${plural(requests.tpot, 'request')}, median error ${formatPercent(medianError.tpot)}.`,
  );
  for (const note of notes) say(note, c.yellow);
}
