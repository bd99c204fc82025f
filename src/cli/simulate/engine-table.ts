/** An arm's engines, a line each: how much each had to do, and when. */
import type { SimulatedArm } from '../../measure/simulation-report.ts';
import { evenly } from '../../report/document.ts';
import { formatCount, formatSeconds, plural } from '../format.ts';
import { left, packed, renderTable, right, type TableStyle } from '../table.ts';
import { averaged, endMsOf } from './load-over-time.ts';

type Engine = SimulatedArm['engines'][number];

/** Beyond these, some of each role stand for all. */
const MOST_ENGINES = 16;

/** `firstSeed`: of which the engines are; told where there are several. */
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
      ? [style.dim(`of each role, busiest first; ${plural(leftOut, 'engine')} more: see --json`)]
      : []),
    ...(seeds > 1 ? [style.dim(`engines of seed ${firstSeed}, the first of ${seeds}`)] : []),
  ];
}

const percent = (share: number): string => `${Math.round(100 * share)}%`;

const BARS = '▁▂▃▄▅▆▇█';
const SPARK_WIDTH = 24;

/** Shares from 0 to 1; nothing where the engine was not there. */
const sparkline = (shares: readonly (number | null)[]): string =>
  shares
    .map((share) => (share === null ? ' ' : BARS[Math.min(BARS.length - 1, Math.floor(share * BARS.length))]))
    .join('');
