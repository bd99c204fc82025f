/** A chart's lines as a table, for those who cannot see it: a column a line, a row a time. */
import { AsTable } from '../views/as-table.tsx';
import { ms } from '../views/format.ts';
import type { Chart } from './line-chart.ts';
import { seconds } from './names.ts';

/** Rows; of more times every second, third, ... is told. */
const MOST_ROWS = 20;

export function ChartTable({ chart: { timesMs, lines } }: { chart: Chart }) {
  const each = Math.ceil(timesMs.length / MOST_ROWS);
  const told = [...timesMs.entries()].filter(([i]) => i % each === 0);
  return (
    <AsTable summary="Chart as a table">
      <table>
        <thead>
          <tr>
            <th scope="col">at</th>
            {lines.map(({ label }) => (
              <th key={label} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {told.map(([i, atMs]) => (
            <tr key={atMs}>
              <th scope="row">{seconds(atMs)}</th>
              {lines.map(({ label, values }) => {
                const value = values[i] ?? null;
                return <td key={label}>{value === null ? '' : ms(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </AsTable>
  );
}
