/** What a drawing shows as a table: a column a fact, a row a thing. The first column names the row. */
import type { ComponentChildren } from 'preact';
import { AsTable } from '../views/as-table.tsx';

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  summary: string;
  columns: readonly [Column<Row>, ...Column<Row>[]];
  rows: readonly Row[];
  keyOf: (row: Row, index: number) => string | number;
}

export function DataTable<Row>({ summary, columns, rows, keyOf }: Props<Row>) {
  const [naming, ...others] = columns;
  return (
    <AsTable summary={summary}>
      {rows.length === 0 && <p>Nothing yet.</p>}
      <table hidden={rows.length === 0}>
        <thead>
          <tr>
            {columns.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={keyOf(row, index)}>
              <th scope="row">{naming.cell(row)}</th>
              {others.map(({ name, cell }) => (
                <td key={name}>{cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </AsTable>
  );
}
