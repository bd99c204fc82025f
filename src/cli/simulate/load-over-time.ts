/** Engine load over time as chart lines: one per engine for small fleets, else the median and range per role. */

import { SERVING_ROLES, servingRole } from '../../fleet/serving-role.ts';
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import { median } from '../../measure/statistics.ts';
import type { CurvePiece, Point } from '../../report/document.ts';

type Engine = Pick<SimulatedArm['engines'][number], 'engine_id' | 'role' | 'combined' | 'load'>;
type Slice = Engine['load'][number];
type Series = CurvePiece['series'][number];

/** The number of available colours. */
export const MOST_LINES = 5;
/** Engines' slices differ in length, so all are averaged over this many cells. */
const CELLS = 120;

/** `of`: the value to show of a slice. x is in seconds. */
export function loadOverTime(engines: readonly Engine[], of: (slice: Slice) => number): Series[] {
  const endMs = endMsOf(engines);
  const columns = engines.map(({ load }) => averaged(load, of, endMs, CELLS));
  const pointsOf = (some: readonly (readonly (number | null)[])[]): Point[] =>
    Array.from({ length: CELLS }, (_, i) => i).flatMap((i) => {
      const known = knownAt(some, i);
      if (known.length === 0) return [];
      const x = Number((((i + 0.5) * endMs) / CELLS / 1000).toPrecision(4));
      const apart = i > 0 && knownAt(some, i - 1).length === 0;
      const at = { x, y: median(known), ...(apart ? { apart } : {}) };
      return [some.length === 1 ? at : { ...at, low: Math.min(...known), high: Math.max(...known) }];
    });
  if (engines.length <= MOST_LINES)
    return engines.map(({ engine_id: name }, i) => ({ name, points: pointsOf([columns[i]!]) }));
  return SERVING_ROLES.flatMap((role) => {
    const some = columns.filter((_, i) => servingRole(engines[i]!) === role);
    if (some.length === 0) return [];
    return [{ name: `${role}, median of ${some.length}`, points: pointsOf(some), band: true }];
  });
}

const knownAt = (columns: readonly (readonly (number | null)[])[], i: number): number[] =>
  columns.flatMap((column) => column[i] ?? []);

/** End of the last slice of any engine, in milliseconds. */
export const endMsOf = (engines: readonly Pick<Engine, 'load'>[]): number =>
  Math.max(0, ...engines.map(({ load }) => load.at(-1)?.end_ms ?? 0));

/** Time-weighted averages over `cells` equal cells from 0 to `endMs`; null where the engine did not exist. */
export function averaged(
  load: readonly Slice[],
  of: (slice: Slice) => number,
  endMs: number,
  cells: number,
): (number | null)[] {
  const cellMs = endMs / cells;
  const sums = new Float64Array(cells);
  const lengths = new Float64Array(cells);
  for (const slice of load) {
    const value = of(slice);
    const last = Math.min(cells - 1, Math.floor(slice.end_ms / cellMs));
    for (let i = Math.floor(slice.start_ms / cellMs); i <= last; i++) {
      const ms = Math.min(slice.end_ms, (i + 1) * cellMs) - Math.max(slice.start_ms, i * cellMs);
      if (ms <= 0) continue;
      sums[i]! += value * ms;
      lengths[i]! += ms;
    }
  }
  return Array.from(sums, (sum, i) => (lengths[i]! > 0 ? sum / lengths[i]! : null));
}
