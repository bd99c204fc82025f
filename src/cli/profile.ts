/** `run --profile`: the table of kernels. */
import type { ProfileReport } from '../measure/profile.ts';
import { ceilingsSentence, KERNEL_COLUMNS, kernelRate, RATE_LEGEND } from '../report/profile.ts';
import { formatMs, formatPercent, WIDTH, wrap } from './format.ts';
import { renderTable, type TableStyle } from './table.ts';

export const NO_TIMESTAMPS =
  'No profile: this adapter has no timestamp-query, the device’s own clock; try another adapter (--adapter).';

export function profileLines({ mode, engines }: ProfileReport, style: TableStyle): string[] {
  const lines = wrap(
    `Kernels of ${mode}, run once more with each kernel in a pass of its own: slower, and in no figure above. Times are the device's clock.`,
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
