/** A table as text alternative to a drawing. The first column names the row. */
import type { ComponentChildren } from 'preact';
import { AsTable } from '../views/as-table.tsx';
import { DataTable } from '../views/data-table.tsx';

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  summary: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row, index: number) => string | number;
}

export function RowsTable<Row>({ summary, columns, rows, keyOf }: Props<Row>) {
  return (
    <AsTable summary={summary}>
      {rows.length === 0 ? (
        <p>Nothing yet.</p>
      ) : (
        <DataTable
          columns={columns.map(({ name }) => name)}
          rows={rows.map((row, i) => ({ key: keyOf(row, i), cells: columns.map(({ cell }) => cell(row)) }))}
        />
      )}
    </AsTable>
  );
}
