/** The legend of the blocks' marks, drawn by the same code as the blocks. */
import { useEffect, useRef } from 'preact/hooks';
import { emptyBlock } from '../../../../src/recording/empty-block.ts';
import { talksOf } from '../../session/conversation/conversation.ts';
import type { BlockView, Role, SessionState } from '../../session/types.ts';
import { readPalette, themeVersion } from '../palette.ts';
import { drawBlock } from './draw-block.ts';

const SIZE = 20;

const sample: BlockView = {
  ...emptyBlock(1),
  state: 'computed',
  origin: 'computed',
  turn: 2,
  index: 0,
  tokens: 16,
  refCount: 1,
};

const ENTRIES: readonly { label: string; role: Role; block: Partial<BlockView> }[] = [
  { label: 'computed by P', role: 'prefill', block: {} },
  { label: 'computed by D', role: 'decode', block: {} },
  { label: 'pulled back from D', role: 'prefill', block: { state: 'pulled', origin: 'pulled' } },
  { label: 'handed over by P', role: 'decode', block: { state: 'pulled', origin: 'pulled' } },
  { label: 'found in its own cache', role: 'prefill', block: { state: 'hit' } },
  { label: 'held for the other', role: 'decode', block: { state: 'held', heldFor: 'prefill' } },
  { label: 'free, still cached', role: 'prefill', block: { state: 'cached', refCount: 0 } },
  { label: 'evicted', role: 'prefill', block: { state: 'evicted', origin: null, turn: null } },
];

export function BlockLegend({ state }: { state: SessionState }) {
  const talks = talksOf(state.turns.value);
  return (
    <details class="legend-fold">
      <summary>What the marks mean</summary>
      <ul class="legend">
        {ENTRIES.map(({ label, role, block }) => (
          <li key={label}>
            <Swatch engine={role} block={{ ...sample, ...block }} />
            {label}
          </li>
        ))}
        {state.store.value && (
          <li>
            <Swatch engine="prefill" block={{ ...sample, state: 'pulled', origin: 'pulled' }} stored />
            loaded from the store
          </li>
        )}
        {talks.length > 1 &&
          talks.map((talk, i) => (
            <li key={talk}>
              <Swatch engine="decode" block={sample} conversation={i} />
              conversation {i + 1}
            </li>
          ))}
        <li class="legend-note">
          Number: the turn. Stronger: newer. Faint: free, showing its last content. Framed: has the words you
          point at.{talks.length > 1 ? ' Stripe: the conversation.' : ''}
        </li>
      </ul>
    </details>
  );
}

function Swatch({
  engine: role,
  block,
  conversation = 0,
  stored = false,
}: {
  engine: Role;
  block: BlockView;
  conversation?: number;
  stored?: boolean;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = themeVersion.value;
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!;
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.clearRect(0, 0, SIZE, SIZE);
    const look = {
      role,
      newestTurn: 2,
      conversation,
      awaited: false,
      evictedGlow: 0,
      fade: 1,
      stored,
      wrong: false,
    };
    drawBlock(context, { x: 0, y: 0, width: SIZE, height: SIZE }, block, look, readPalette());
  }, [theme]);
  return (
    <span aria-hidden="true">
      <canvas
        ref={canvas}
        width={2 * SIZE}
        height={2 * SIZE}
        style={{ width: `${SIZE}px`, height: `${SIZE}px` }}
      />
    </span>
  );
}
