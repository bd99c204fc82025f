/** Policies side by side: how fast, what it took, and what of that is sure. Lines of at most 80 columns. */
import type { BenchMode, Experiment } from '../../measure/bench-report.ts';
import { outcomeOf, TIE } from '../../measure/outcome.ts';
import { formatMs } from '../format.ts';
import { left, packed, renderTable, right, type TableStyle } from '../table.ts';
import { ratio } from './tables.ts';

type Routed = BenchMode & { routing: NonNullable<BenchMode['routing']> };

/** Empty where no policies were compared. */
export const routedModes = ({ modes }: Pick<Experiment, 'modes'>): Routed[] =>
  Object.values(modes).filter((mode): mode is Routed => mode.routing !== undefined);

/** In a table a mix of three is too long a name. */
const LONGEST_NAME = 16;
const nameOf = ({ label }: BenchMode): string =>
  label.length <= LONGEST_NAME ? label : `${label.slice(0, LONGEST_NAME - 1)}…`;

export function speedTable(modes: readonly Routed[], style: TableStyle): string[] {
  const goodput = modes.some(({ routing }) => routing.goodput);
  const columns = [
    left(''),
    ...packed('TTFT, ms', 'mean', 'p50', 'p90', 'p99'),
    ...packed('TPOT, ms', 'p50', 'p90', 'p99'),
    ...right('requests/s', ...(goodput ? ['good/s', 'good'] : [])),
  ];
  const rows = modes.map((mode) => {
    const { ttft_ms: ttft, tpot_ms: tpot } = mode.table;
    const { goodput: good } = mode.routing;
    return [
      nameOf(mode),
      ...[ttft.mean, ttft.p50, ttft.p90, ttft.p99, tpot.p50, tpot.p90, tpot.p99].map((ms) => formatMs(ms)),
      mode.requests_per_second.toFixed(2),
      ...(good ? [good.requests_per_second.toFixed(2), `${Math.round(100 * good.share)}%`] : []),
    ];
  });
  return renderTable(columns, rows, style);
}

export function workTable(modes: readonly Routed[], style: TableStyle): string[] {
  const columns = [
    left(''),
    ...packed('prompt tokens', 'hit', 'pulled', 'computed'),
    ...packed('MB', 'P→D', 'D→P'),
    ...packed('P', 'peak', 'Jain'),
    ...packed('D', 'peak', 'Jain'),
    ...right('moved'),
  ];
  const mb = (bytes: number | null): string => (bytes === null ? '-' : (bytes / 1e6).toFixed(1));
  const balance = ({ max_over_mean: most, jain }: Routed['routing']['decode']): string[] => [
    most === null ? '-' : most.toFixed(2),
    jain === null ? '-' : jain.toFixed(2),
  ];
  const rows = modes.map((mode) => [
    nameOf(mode),
    String(mode.local_hit_tokens ?? '-'),
    String(mode.pulled_tokens ?? '-'),
    String(mode.computed_tokens ?? '-'),
    mb(mode.bytes_p_to_d),
    mb(mode.bytes_d_to_p),
    ...balance(mode.routing.prefill),
    ...balance(mode.routing.decode),
    String(mode.routing.moved_turns),
  ]);
  return renderTable(columns, rows, style);
}

export const WORK_LEGEND =
  "peak: the busiest engine's over the mean (1: all the same), by those computed on P and generated on D. Jain: 1 all the same, 1/n all on one. moved: turns whose conversation was decoded elsewhere before.";

/** A sentence for each policy against the first, as sure as the interval is. */
export function routingVerdicts({
  comparisons,
  modes,
}: Experiment): { text: string; outcome: 'ahead' | 'behind' | 'tie' }[] {
  return Object.entries(comparisons).flatMap(
    ([
      key,
      {
        reference,
        ttft_ms: { mean },
      },
    ]) => {
      const { low, high } = mean;
      if (mean.ratio === null) return [];
      const outcome = outcomeOf({ ratio: mean.ratio, low, high });
      const [name, other] = [modes[key]?.label ?? key, modes[reference]?.label ?? reference];
      const range = low === null || high === null ? '' : `, between ${low.toFixed(2)} and ${high.toFixed(2)}`;
      const said = {
        ahead: `is faster than ${other}`,
        behind: `is slower than ${other}`,
        tie: `and ${other}: ${TIE}`,
      }[outcome];
      return [{ text: `${name} ${said}: mean TTFT ${ratio(mean.ratio)}${range}.`, outcome }];
    },
  );
}
