/** The blocks with content as tables: a text alternative to the grids. Rendered only while open. */
import type { BlockView, Role, SessionState } from '../../session/types.ts';
import { AsTable } from '../as-table.tsx';
import { DataTable } from '../data-table.tsx';
import { useSeconds } from '../use-frames.ts';
import { holdInWords, letterOf, ownerInWords, type Stored, stateInWords } from './describe-block.ts';
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
  const held = blocks.some(({ heldUntilMs }) => heldUntilMs !== null);
  const nowMs = useSeconds(held, state.nowMs);
  const stored = (id: number) => isFromStore(state, role, id);
  return <BlockRows role={role} name={letterOf(role)} blocks={blocks} nowMs={nowMs} stored={stored} />;
}

export function BlockRows(props: {
  role: Role;
  name: string;
  blocks: readonly BlockView[];
  nowMs: number;
  /** Whether the content copied into a block came from the store. */
  stored: (id: number) => Stored;
}) {
  const { role, name, nowMs, stored } = props;
  const blocks = props.blocks.filter(({ state: is }) => is !== 'free' && is !== 'null');
  if (blocks.length === 0) return <p>All of {name}'s blocks are free.</p>;
  return (
    <DataTable
      caption={name}
      columns={['block', 'state', 'from', 'held', 'text']}
      rows={blocks.map((block) => ({
        key: block.id,
        cells: [
          block.id,
          stateInWords(block, role, stored(block.id)),
          ownerInWords(block),
          holdInWords(block, nowMs),
          <span key="text" class="block-text">
            {block.text}
          </span>,
        ],
      }))}
    />
  );
}
