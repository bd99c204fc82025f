/** Tables for a terminal: columns as wide as their content, with shared headings for groups of columns. */
import pc from 'picocolors';
import type { Output } from '../deps.ts';
import { fill, fillLeft, WIDTH, widthOf, wrap } from './format.ts';

export interface Column {
  head: string;
  align?: 'left' | 'right';
  /** Separator from the previous column, in rows and in the heading. Default: two spaces. */
  before?: string;
  /** Adjacent columns of the same group share this heading. */
  group?: string;
}

/** Like a document's `under`, separated by one space. */
export const packed = (group: string, ...heads: string[]): Column[] =>
  heads.map((head, i) => (i === 0 ? { head, group } : { head, group, before: ' ' }));

/** Cells, or a remark below the previous row. */
export type Row = readonly string[] | { remark: string };

export interface TableStyle {
  dim(text: string): string;
  bold(text: string): string;
}

export function styleOf(color: boolean): TableStyle {
  const { dim, bold } = pc.createColors(color);
  return { dim, bold };
}

type Paint = (line: string) => string;

/** Prints lines (`print`) and wrapped sentences (`say`) to an output, in its colours. */
export function printer(out: Output, color: boolean) {
  const print = (lines: readonly string[], paint: Paint = (line) => line): void => {
    for (const line of lines) out.write(`${paint(line)}\n`);
  };
  const say = (text: string, paint?: Paint): void => print(wrap(text, WIDTH), paint);
  return { print, say, c: pc.createColors(color), style: styleOf(color) };
}
export type Printer = ReturnType<typeof printer>;

export const plainStyle: TableStyle = { dim: (text) => text, bold: (text) => text };

/** A table of at most 80 columns if the cells fit. */
export function renderTable(columns: readonly Column[], rows: readonly Row[], style: TableStyle): string[] {
  const cells = rows.filter((row): row is readonly string[] => Array.isArray(row));
  const gaps = columns.map(({ before }, i) => (i === 0 ? '' : (before ?? '  ')));
  const widths = columns.map(({ head }, i) =>
    Math.max(widthOf(head), ...cells.map((row) => widthOf(row[i] ?? ''))),
  );
  const groups = spans(columns);
  for (const { label, from, to } of groups) {
    const width = spanWidth(widths, gaps, from, to);
    widths[to] = widths[to]! + Math.max(0, widthOf(label) - width);
  }
  const total = (): number => spanWidth(widths, gaps, 0, columns.length - 1);
  for (let i = 0; i < gaps.length && total() > WIDTH; i++) if (gaps[i] === '  ') gaps[i] = ' ';

  const line = (values: readonly string[]): string =>
    values
      .map(
        (value, i) =>
          gaps[i] + (columns[i]!.align === 'left' ? fill(value, widths[i]!) : fillLeft(value, widths[i]!)),
      )
      .join('')
      .trimEnd();
  const heading = groups
    .map(
      ({ label, from, to }) =>
        ' '.repeat(gaps[from]!.length) + fillLeft(label, spanWidth(widths, gaps, from, to)),
    )
    .join('')
    .trimEnd();
  return [
    ...(heading.trim() === '' ? [] : [style.dim(heading)]),
    style.bold(line(columns.map(({ head }) => head))),
    style.dim('─'.repeat(total())),
    ...rows.map((row) => ('remark' in row ? style.dim(`      ${row.remark}`) : line(row))),
  ];
}

function spans(columns: readonly Column[]): { label: string; from: number; to: number }[] {
  const result: { label: string; from: number; to: number }[] = [];
  for (const [i, { group }] of columns.entries()) {
    const last = result.at(-1);
    if (last && group !== undefined && last.label === group) last.to = i;
    else result.push({ label: group ?? '', from: i, to: i });
  }
  return result;
}

/** Excludes the gap before the first column. */
function spanWidth(widths: readonly number[], gaps: readonly string[], from: number, to: number): number {
  let width = 0;
  for (let i = from; i <= to; i++) width += widths[i]! + (i === from ? 0 : gaps[i]!.length);
  return width;
}
