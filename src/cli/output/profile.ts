/** Output of `run --profile`: the table of kernels. */

import { formatMs, formatPercent } from '../../measure/format.ts';
import type { ProfileReport } from '../../measure/spans/profile.ts';
import { ceilingsSentence, KERNEL_COLUMNS, kernelRate, RATE_LEGEND } from '../../report/profile.ts';
import { WIDTH, wrap } from './format.ts';
import { renderTable, type TableStyle } from './table.ts';

export const NO_TIMESTAMPS =
  'No profile: this adapter does not support timestamp-query, which reads the device’s clock; try another adapter (--adapter).';

export function profileLines({ mode, engines }: ProfileReport, style: TableStyle): string[] {
  const lines = wrap(
    `Kernels of ${mode}, run once more with each kernel in its own pass. This run is slower and does not count in the figures above. Times are from the device's clock.`,
    WIDTH,
  );
  for (const engine of engines) {
    const rows = engine.kernels.map((kernel) => [
      kernel.kernel,
      String(kernel.calls),
      formatMs(kernel.ms),
      formatPercent(kernel.share),
      kernelRate(kernel),
      `${(100 * kernel.of_ceiling).toFixed(0)}%`,
    ]);
    lines.push('', ...wrap(ceilingsSentence(engine), WIDTH), ...renderTable(KERNEL_COLUMNS, rows, style));
  }
  lines.push('', ...wrap(RATE_LEGEND, WIDTH));
  return lines;
}
