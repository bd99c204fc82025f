/** An arm's engines, one line each: load in total and over time. */

import { formatCount, formatSeconds, plural } from '../../measure/format.ts';
import type { SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import { evenly, left, right } from '../../report/document.ts';
import { packed, renderTable, type TableStyle } from '../output/table.ts';
import { averaged, endMsOf } from './load-over-time.ts';

type Engine = SimulatedArm['engines'][number];

/** Larger fleets are represented by some engines of each role. */
const MOST_ENGINES = 16;

/** `firstSeed`: the seed whose engines are shown. */
export function engineTable(
  { engines, seeds }: SimulatedArm,
  firstSeed: number,
  style: TableStyle,
): string[] {
  const some = (role: Engine['role']) => {
    const same = engines.filter((engine) => engine.role === role);
    return evenly(
      same.toSorted((a, b) => b.busy - a.busy),
      MOST_ENGINES / 2,
    );
  };
  const endMs = endMsOf(engines);
  const columns = [
    left('engine'),
    ...right('busy'),
    ...packed('requests', 'run', 'wait'),
    ...right('KV', 'steps'),
    left(`busy, 0 to ${formatSeconds(endMs)}`),
  ];
  const shown = engines.length > MOST_ENGINES ? (['prefill', 'decode'] as const).flatMap(some) : engines;
  const rows = shown.map((engine) => [
    engine.engine_id,
    percent(engine.busy),
    engine.running.toFixed(1),
    engine.waiting.toFixed(1),
    percent(engine.kv_used),
    formatCount(engine.steps),
    sparkline(averaged(engine.load, ({ busy }) => busy, endMs, SPARK_WIDTH)),
  ]);
  const leftOut = engines.length - shown.length;
  return [
    ...renderTable(columns, rows, style),
    ...(leftOut > 0
      ? [style.dim(`some of each role, busiest first; ${plural(leftOut, 'more engine')}: see --json`)]
      : []),
    ...(seeds > 1 ? [style.dim(`engines of seed ${firstSeed}, the first of ${seeds}`)] : []),
  ];
}

const percent = (share: number): string => `${Math.round(100 * share)}%`;

const BARS = '▁▂▃▄▅▆▇█';
const SPARK_WIDTH = 24;

/** Bars for shares from 0 to 1; a space where the engine did not exist. */
const sparkline = (shares: readonly (number | null)[]): string =>
  shares
    .map((share) => (share === null ? ' ' : BARS[Math.min(BARS.length - 1, Math.floor(share * BARS.length))]))
    .join('');
