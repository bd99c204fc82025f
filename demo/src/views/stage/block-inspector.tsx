/** Details of the block that was pointed at, or the place of the word. They stay until something else is pointed at. */
import { type ReadonlySignal, useComputed } from '@preact/signals';
import { litPlaces, wordOf } from '../../session/pointing.ts';
import type { BlockView, Pointed, Role, SessionState } from '../../session/types.ts';
import { useSeconds } from '../use-frames.ts';
import {
  blockInWords,
  holdInWords,
  letterOf,
  ownerInWords,
  type Stored,
  stateInWords,
} from './describe-block.ts';
import { isFromStore, madeFrom } from './sources.ts';

interface Props {
  at: ReadonlySignal<Pointed | null>;
  state: SessionState;
}

export function BlockInspector({ at, state }: Props) {
  const pointed = at.value;
  const block = useComputed(() => {
    const now = at.value;
    return now?.at === 'block' ? (state.drawn[now.role].value?.blocks.value[now.id] ?? null) : null;
  });
  const shown = block.value;
  const stored = pointed?.at === 'block' && isFromStore(state, pointed.role, pointed.id);
  const other = pointed?.at === 'block' && shown ? madeFrom(state, pointed.role, shown) : null;
  const word = pointed?.at === 'word' ? wordInWords(pointed, state) : null;
  return (
    <div class="inspector" id="block-inspector">
      {pointed?.at === 'block' && shown ? (
        <Counting role={pointed.role} block={shown} nowMs={state.nowMs} stored={stored} madeFrom={other} />
      ) : word ? (
        <p class="inspector-title">{word}</p>
      ) : (
        <p class="inspector-hint">
          Point at a block or at a word in the chat: the matching words or blocks light up. Touch works too,
          and so do <kbd>Tab</kbd> and the arrow keys.
        </p>
      )}
      <p class="visually-hidden" aria-live="polite">
        {pointed?.at === 'block' && shown
          ? `${blockInWords(shown, pointed.role, state.nowMs(), stored)}${other === null ? '' : ` Its KV was computed from “${other}”.`}`
          : (word ?? '')}
      </p>
    </div>
  );
}

/** Counts down the remaining hold time on the screen. Screen readers hear it once. */
function Counting({ nowMs, ...details }: Omit<DetailsProps, 'nowMs'> & { nowMs: () => number }) {
  return <BlockDetails {...details} nowMs={useSeconds(details.block.heldUntilMs !== null, nowMs)} />;
}

/** Which blocks of both engines have the word. */
function wordInWords(pointed: Extract<Pointed, { at: 'word' }>, state: SessionState): string {
  const word = `“${wordOf(state, pointed)}”`;
  const lies = (['prefill', 'decode'] as const).flatMap((role) => {
    const ids = litPlaces(state, pointed, role);
    return ids.length > 0 ? [`${letterOf(role)}'s block ${ids.join(' and ')}`] : [];
  });
  if (lies.length === 0) return `${word}: no block has it now.`;
  return `${word} is in ${lies.join(', and in ')}.`;
}

interface DetailsProps {
  role: Role;
  block: BlockView;
  nowMs: number;
  stored: Stored;
  /** The words its KV was computed from, if they differ from `block.text`. */
  madeFrom?: string | null;
}

export function BlockDetails({ role, block, nowMs, stored, madeFrom: other = null }: DetailsProps) {
  const whose = ownerInWords(block);
  const hold = holdInWords(block, nowMs);
  return (
    <>
      <p class="inspector-title">
        <strong class={`is-${letterOf(role).toLowerCase()}`}>
          {letterOf(role)} · block {block.id}
        </strong>{' '}
        {stateInWords(block, role, stored)}
      </p>
      {block.text !== null && <p class="inspector-text">{block.text}</p>}
      {other !== null && <p class="inspector-text is-wrong">Its KV was computed from: {other}</p>}
      <dl class="inspector-facts">
        {whose && <Fact name="from">{whose}</Fact>}
        {block.group !== undefined && <Fact name="cache group">{block.group}</Fact>}
        {block.tokens > 0 && <Fact name="tokens">{block.tokens}</Fact>}
        <Fact name="references">{block.refCount}</Fact>
        {hold && <Fact name="held">{hold}</Fact>}
        {block.hash && (
          <Fact name="hash">
            <code title={block.hash}>{block.hash.slice(0, 12)}</code>
          </Fact>
        )}
        {block.evictions > 0 && <Fact name="evicted">{block.evictions}×</Fact>}
      </dl>
    </>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
