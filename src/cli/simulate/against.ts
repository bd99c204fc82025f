/** A simulation beside a report, as tables. */
import type { BenchReport } from '../../measure/bench-report.ts';
import { parseBenchReport } from '../../measure/report-kinds.ts';
import type { AgainstReport } from '../../measure/simulation-report.ts';
import type { CliDeps, Output } from '../deps.ts';
import { formatCount, formatMs, formatPercent } from '../format.ts';
import { left, printer, renderTable, right } from '../table.ts';

/** Throws ConfigError. */
export const readMeasured = async (file: string, deps: Pick<CliDeps, 'readTextFile'>): Promise<BenchReport> =>
  parseBenchReport(await deps.readTextFile(file), file);

type Figure = AgainstReport['arms'][number]['figures'][number];

export function printAgainst({ source, arms }: AgainstReport, out: Output, color: boolean): void {
  const { print, say, c, style } = printer(out, color);
  for (const arm of arms) {
    print(['']);
    say(`${arm.label} against ${arm.real} of ${source}`, c.bold);
    const columns = [left(''), ...right('real', 'simulated', 'error')];
    print(renderTable(columns, arm.figures.map(figureCells), style));
    const other = otherWork(arm);
    if (other) say(other, c.yellow);
  }
}

/** A figure's name, both values, and how far the simulated one is off. */
export const figureCells = ({ name, unit, real, simulated, error }: Figure): string[] => [
  name,
  shown(real, unit),
  shown(simulated, unit),
  error === null ? '-' : `${error >= 0 ? '+' : '−'}${formatPercent(Math.abs(error))}`,
];

/** null: as many requests were served. */
export const otherWork = ({ requests }: AgainstReport['arms'][number]): string | null =>
  requests.real === requests.simulated
    ? null
    : `${formatCount(requests.real)} requests there and ${formatCount(requests.simulated)} here: not the same workload, or not all of it.`;

function shown(value: number | null, unit: Figure['unit']): string {
  if (value === null) return '-';
  if (unit === 'ms') return `${formatMs(value)} ms`;
  if (unit === 'share') return formatPercent(value);
  return unit === '/s' ? value.toFixed(2) : formatCount(Math.round(value));
}
