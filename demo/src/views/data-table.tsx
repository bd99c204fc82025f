/** A table with column headings and rows that are named by their first cell. */
import type { ComponentChildren } from 'preact';

interface TableRow {
  key: string | number;
  /** One per column. */
  cells: readonly ComponentChildren[];
}

interface Props {
  caption?: string;
  columns: readonly string[];
  rows: readonly TableRow[];
}

export function DataTable({ caption, columns, rows }: Props) {
  return (
    <table>
      {caption && <caption>{caption}</caption>}
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ key, cells }) => (
          <tr key={key}>
            {cells.map((cell, i) =>
              i === 0 ? (
                <th key={columns[i]} scope="row">
                  {cell}
                </th>
              ) : (
                <td key={columns[i]}>{cell}</td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
