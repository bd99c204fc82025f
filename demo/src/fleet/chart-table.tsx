/** A chart's lines as a table, as a text alternative: one column per line, one row per time. */
import { ms } from '../views/format.ts';
import type { Chart } from './line-chart.ts';
import { seconds } from './names.ts';
import { type Column, RowsTable } from './rows-table.tsx';

/** With more times than this, only every second, third, ... one is a row. */
const MOST_ROWS = 20;

export function ChartTable({ chart: { timesMs, lines } }: { chart: Chart }) {
  const each = Math.ceil(timesMs.length / MOST_ROWS);
  const told = [...timesMs.keys()].filter((i) => i % each === 0);
  const columns = lines.map(({ label, values }): Column<number> => {
    return { name: label, cell: (i) => (values[i] == null ? '' : ms(values[i])) };
  });
  return (
    <RowsTable
      summary="Chart as a table"
      columns={[{ name: 'at', cell: (i) => seconds(timesMs[i]!) }, ...columns]}
      rows={told}
      keyOf={(i) => i}
    />
  );
}
