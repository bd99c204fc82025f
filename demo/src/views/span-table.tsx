/** The last turn's stages as a table: what the timeline shows, for those who cannot see it. Made only while open. */
import type { SessionState } from '../session/types.ts';
import { AsTable } from './as-table.tsx';
import { CLOCKS } from './describe-span.ts';
import { drawnIds } from './direction.ts';
import { bytes, ms } from './format.ts';
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
  if (sums.length === 0) return <p>Nothing was measured yet.</p>;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">where</th>
          <th scope="col">stage</th>
          <th scope="col">times</th>
          <th scope="col">together</th>
          <th scope="col">bytes</th>
          <th scope="col">clock</th>
        </tr>
      </thead>
      <tbody>
        {sums.map((sum) => (
          <tr key={`${sum.where} ${sum.name} ${sum.clock}`}>
            <th scope="row">{sum.where}</th>
            <td>{sum.name}</td>
            <td>{sum.count}</td>
            <td>{ms(sum.ms)}</td>
            <td>{sum.bytes > 0 ? bytes(sum.bytes) : ''}</td>
            <td>{CLOCKS[sum.clock]}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
