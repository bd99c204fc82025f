/** The blocks that hold something, as tables: what the grids show, for those who cannot see them. Made only while open. */
import type { BlockView, Role, SessionState } from '../session/types.ts';
import { AsTable } from './as-table.tsx';
import { holdInWords, letterOf, type Stored, stateInWords, whoseInWords } from './describe-block.ts';
import { isFromStore } from './sources.ts';

export function BlockTable({ state }: { state: SessionState }) {
  return (
    <AsTable summary="Blocks as a table">
      <Table state={state} engine="prefill" />
      <Table state={state} engine="decode" />
    </AsTable>
  );
}

function Table({ state, engine: role }: { state: SessionState; engine: Role }) {
  const blocks = state.drawn[role].value?.blocks.value ?? [];
  const stored = (id: number) => isFromStore(state, role, id);
  return (
    <BlockRows role={role} name={letterOf(role)} blocks={blocks} nowMs={state.nowMs()} stored={stored} />
  );
}

export function BlockRows(props: {
  role: Role;
  name: string;
  blocks: readonly BlockView[];
  nowMs: number;
  /** What was copied into it came from the store. */
  stored: (id: number) => Stored;
}) {
  const { role, name, nowMs, stored } = props;
  const blocks = props.blocks.filter(({ state: is }) => is !== 'free' && is !== 'null');
  if (blocks.length === 0) return <p>All of {name}'s blocks are free.</p>;
  return (
    <table>
      <caption>{name}</caption>
      <thead>
        <tr>
          <th scope="col">block</th>
          <th scope="col">state</th>
          <th scope="col">whose</th>
          <th scope="col">held</th>
          <th scope="col">text</th>
        </tr>
      </thead>
      <tbody>
        {blocks.map((block) => (
          <tr key={block.id}>
            <th scope="row">{block.id}</th>
            <td>{stateInWords(block, role, stored(block.id))}</td>
            <td>{whoseInWords(block) ?? ''}</td>
            <td>{holdInWords(block, nowMs) ?? ''}</td>
            <td class="block-text">{block.text ?? ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
