/** The last turn's stages as a table: a text alternative to the timeline. Rendered only while open. */
import type { SessionState } from '../../session/types.ts';
import { AsTable } from '../as-table.tsx';
import { DataTable } from '../data-table.tsx';
import { bytes, ms } from '../format.ts';
import { drawnIds } from '../stage/direction.ts';
import { CLOCKS } from './describe-span.ts';
import { sumStages } from './stage-sums.ts';

export function SpanTable({ state }: { state: SessionState }) {
  return (
    <AsTable summary="The last turn as a table">
      <Table state={state} />
    </AsTable>
  );
}

function Table({ state }: { state: SessionState }) {
  const turn = state.turns.value.at(-1);
  const sums = turn ? sumStages(state.spans.value, turn, drawnIds(state)) : [];
  if (sums.length === 0) return <p>Nothing has been measured yet.</p>;
  return (
    <DataTable
      columns={['where', 'stage', 'count', 'total', 'bytes', 'clock']}
      rows={sums.map((sum) => ({
        key: `${sum.where} ${sum.name} ${sum.clock}`,
        cells: [
          sum.where,
          sum.name,
          sum.count,
          ms(sum.ms),
          sum.bytes > 0 ? bytes(sum.bytes) : '',
          CLOCKS[sum.clock],
        ],
      }))}
    />
  );
}
