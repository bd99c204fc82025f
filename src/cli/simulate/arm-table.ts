/** A table with one row per arm. Names are shortened to fit. */
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import { left } from '../../report/document.ts';
import { clip, WIDTH, widthOf } from '../output/format.ts';
import { type Column, plainStyle, renderTable, type TableStyle } from '../output/table.ts';

/** `columns`: those after the name, as `cells` gives them. */
export function armTable(
  columns: readonly Column[],
  arms: readonly SimulatedArm[],
  cells: (arm: SimulatedArm) => readonly string[],
  style: TableStyle,
): string[] {
  const all = [left(''), ...columns];
  const names = arms.map(({ label }) => label);
  const rows = (of: readonly string[]) => arms.map((arm, i) => [of[i]!, ...cells(arm)]);
  const tooWide = (of: readonly string[]): number =>
    Math.max(...renderTable(all, rows(of), plainStyle).map(widthOf)) - WIDTH;
  const over = tooWide(names);
  const room = Math.max(...names.map(widthOf)) - over;
  return renderTable(all, rows(over > 0 ? names.map((name) => shorter(name, room)) : names), style);
}

/** Shortens a name but keeps its threshold, which distinguishes arms. */
function shorter(name: string, room: number): string {
  if (widthOf(name) <= room) return name;
  const [mode = '', threshold] = name.split(/, threshold (?=\d+$)/);
  const mark = threshold === undefined ? '' : ` ≥${threshold}`;
  return `${clip(mode, room - mark.length)}${mark}`;
}
