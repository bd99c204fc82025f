/** KV paths in a benchmark's report: bytes by edge, memory by tier, and results by prompt length. */

import { formatInterval, formatMb, formatMs } from '../measure/format.ts';
import type { BenchMode } from '../measure/schemas/bench-mode-schema.ts';
import type { Interval } from '../measure/schemas/bench-paths-schema.ts';
import { type Experiment, labelIn } from '../measure/schemas/bench-report.ts';
import { type Cell, left, right, type TablePiece, under } from './document.ts';

type Path = NonNullable<BenchMode['path']>;

const times = (value: number): string => value.toFixed(2);

/** Empty for the path that others are compared with. */
const timesCell = (faster: Interval | null): string => (faster ? formatInterval(faster, times) : '');

export function wayTables(experiment: Experiment): TablePiece[] {
  const ways = Object.values(experiment.modes);
  const row = (cells: (path: Path, way: BenchMode) => Cell[]) =>
    ways.flatMap((way) =>
      way.path ? [[{ text: way.label, strong: true }, ...cells(way.path, way)] satisfies Cell[]] : [],
    );
  return [
    {
      kind: 'table',
      title: 'KV traffic, MB per round',
      columns: [
        left('path'),
        ...under('between engines', 'P→D', 'D→P'),
        ...under('from the store', 'to P', 'to D'),
        ...under('to the store', 'from P', 'from D'),
        ...right('twice'),
      ],
      rows: row(({ bytes }) =>
        [
          ...[bytes.p_to_d, bytes.d_to_p, bytes.store_to_p, bytes.store_to_d],
          ...[bytes.p_to_store, bytes.d_to_store, bytes.two_hops],
        ].map(formatMb),
      ),
      note: 'Twice: bytes that took two hops in one turn where one would have sufficed.',
    },
    {
      kind: 'table',
      title: 'Memory',
      columns: [
        left('path'),
        ...under('pools, MB', 'P', 'D'),
        ...under('store, MB', 'used', 'of'),
        ...under('blocks × seconds of finished requests', 'on D for P', 'on P for D', 'until saved'),
      ],
      rows: row(({ memory, held_block_seconds: held }) => [
        ...[memory.p_pool_bytes, memory.d_pool_bytes, memory.store_bytes, memory.store_capacity_bytes].map(
          formatMb,
        ),
        ...[held.on_d_for_p, held.on_p_for_d, held.saving].map((seconds) => seconds.toFixed(1)),
      ]),
      note: 'Pools have the same size for every path; blocks kept for a reader occupy them.',
    },
    ...lengths(experiment),
  ];
}

function lengths({ by_length = [], modes }: Experiment): TablePiece[] {
  const [first] = by_length;
  if (!first) return [];
  return [
    {
      kind: 'table',
      title: 'By prompt length: median TTFT from the second turn on, and times faster than the first path',
      columns: [
        left('prompt tokens'),
        ...by_length.flatMap(({ from_tokens, to_tokens }) =>
          under(`${from_tokens} to ${to_tokens}`, 'ms [95%]', 'times [95%]'),
        ),
      ],
      rows: Object.keys(first.ways).map((key) => [
        { text: labelIn(modes, key), strong: true },
        ...by_length.flatMap(({ ways, best, sure }): Cell[] => [
          {
            text: formatInterval(ways[key]!.ttft_ms, formatMs),
            tone: sure && key === best ? 'good' : 'plain',
          },
          timesCell(ways[key]!.times_faster),
        ]),
      ]),
    },
  ];
}
