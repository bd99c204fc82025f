/** What is in the block under the pointer or the keyboard's focus. */
import type { ReadonlySignal } from '@preact/signals';
import type { BlockView, SessionState } from '../session/types.ts';
import { blockInWords, holdInWords, letterOf, stateInWords, whoseInWords } from './describe-block.ts';
import type { Focus } from './draw-stage.ts';

interface Props {
  focus: ReadonlySignal<Focus | null>;
  block: ReadonlySignal<BlockView | null>;
  state: SessionState;
}

export function BlockInspector({ focus, block, state }: Props) {
  const at = focus.value;
  const shown = block.value;
  return (
    <div class="inspector" id="block-inspector">
      {at && shown ? (
        <Details at={at} block={shown} nowMs={state.nowMs()} />
      ) : (
        <p class="inspector-hint">
          Point at a block, touch it, or go there with <kbd>Tab</kbd> and the arrow keys, to see the tokens in
          it.
        </p>
      )}
      <p class="visually-hidden" aria-live="polite">
        {at && shown ? blockInWords(shown, at.role, state.nowMs()) : ''}
      </p>
    </div>
  );
}

function Details({ at, block, nowMs }: { at: Focus; block: BlockView; nowMs: number }) {
  const whose = whoseInWords(block);
  const hold = holdInWords(block, nowMs);
  return (
    <>
      <p class="inspector-title">
        <strong class={`is-${letterOf(at.role).toLowerCase()}`}>
          {letterOf(at.role)} · block {block.id}
        </strong>{' '}
        {stateInWords(block, at.role)}
      </p>
      {block.text !== null && <p class="inspector-text">{block.text}</p>}
      <dl class="inspector-facts">
        {whose && <Fact name="whose">{whose}</Fact>}
        {block.group !== undefined && <Fact name="layers of group">{block.group}</Fact>}
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
