/** The conversation so far. Follows the newest turn; every word can be pointed at with the mouse or the keyboard. */
import { type ReadonlySignal, useComputed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { storedTokens } from '../../../src/measure/spans/stored-tokens.ts';
import { beyond } from '../session/conversation/suggestions.ts';
import { type LitWords, litKey, litWords } from '../session/pointing.ts';
import type { Part, Pointed, Session, TurnView } from '../session/types.ts';
import { ms } from '../views/format.ts';
import { plainly } from '../views/plain-words.ts';
import { StageBar } from '../views/race/stage-bar.tsx';
import { reader } from '../views/story.ts';
import { Said, Words } from './words.tsx';

interface Props {
  session: Session;
  turns: readonly TurnView[];
  conversations: readonly string[];
}

export function TurnList({ session: { state, actions }, turns, conversations }: Props) {
  const list = useRef<HTMLOListElement>(null);
  const lit = useComputed(() => litWords(state));
  const last = turns.at(-1);
  const scaleMs = Math.max(...turns.map((turn) => turn.result?.ttft_ms ?? 0), 1);
  const follows = useRef(true);
  const topBefore = useRef(0);
  useEffect(() => {
    follows.current = true;
  }, [turns.length]);
  // Stops following when the reader scrolls up.
  useEffect(() => {
    const { current } = list;
    if (current && follows.current) current.scrollTop = current.scrollHeight;
  }, [last?.turnId, last?.tokens, last?.endMs]);
  // Another width or text size moves the end too.
  useEffect(() => {
    const { current } = list;
    if (!current) return;
    const observer = new ResizeObserver(() => {
      if (follows.current) current.scrollTop = current.scrollHeight;
    });
    for (const element of [current, ...current.children]) observer.observe(element);
    return () => observer.disconnect();
  }, [turns.length]);
  if (turns.length === 0) {
    const { phase } = state.status.value;
    const how =
      phase === 'failed' || state.playing.value
        ? ''
        : phase === 'recorded'
          ? 'Press Play.'
          : 'Ask below, or press Play.';
    return <p class="chat-empty">Nothing has been said yet. {how}</p>;
  }
  return (
    <ol
      class="chat-turns"
      ref={list}
      aria-live="polite"
      aria-relevant="additions"
      aria-label="Conversation so far. Left and right arrow keys go from word to word and highlight the word's blocks."
      aria-describedby="block-inspector"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and is walked through word by word
      tabIndex={0}
      onPointerMove={(event) => actions.point(wordUnder(event.target))}
      onPointerDown={(event) => actions.point(wordUnder(event.target))}
      onPointerLeave={(event) => {
        if (event.pointerType === 'mouse') actions.point(null);
      }}
      onKeyDown={(event) => {
        if (walk(event.currentTarget, event.key, state.pointed.peek(), actions)) event.preventDefault();
      }}
      onWheel={(event) => {
        if (event.deltaY < 0) follows.current = false;
      }}
      onTouchMove={() => {
        follows.current = false;
      }}
      onScroll={({ currentTarget: scrolled }) => {
        const { scrollTop } = scrolled;
        if (scrolled.scrollHeight - scrollTop - scrolled.clientHeight < 8) follows.current = true;
        // Upwards with a key or the scrollbar. Following only goes down.
        else if (scrollTop < topBefore.current) follows.current = false;
        topBefore.current = scrollTop;
      }}
    >
      {turns.map((turn) => (
        <Turn
          key={turn.turnId}
          turn={turn}
          lit={lit}
          scaleMs={scaleMs}
          label={conversations.length > 1 ? conversations.indexOf(turn.conversation) + 1 : null}
          hint={beyond(state.settings.value.model, turn.question)}
        />
      ))}
    </ol>
  );
}

function wordUnder(target: EventTarget | null): Pointed | null {
  const word = target instanceof Element ? target.closest<HTMLElement>('.word') : null;
  if (!word) return null;
  const { turn, part, start } = word.dataset;
  return { at: 'word', turnId: turn!, part: part as Part, start: Number(start) };
}

/** Moves from word to word. Returns false if the key is not handled. */
function walk(
  list: HTMLElement,
  key: string,
  from: Pointed | null,
  actions: Pick<Session['actions'], 'point'>,
): boolean {
  if (key === 'Escape') {
    actions.point(null);
    return true;
  }
  if (key !== 'ArrowLeft' && key !== 'ArrowRight') return false;
  const words = [...list.querySelectorAll<HTMLElement>('.word')];
  const at = words.findIndex(
    ({ dataset }) =>
      from?.at === 'word' &&
      dataset.turn === from.turnId &&
      dataset.part === from.part &&
      Number(dataset.start) === from.start,
  );
  const step = key === 'ArrowRight' ? 1 : -1;
  const next = words[at < 0 ? words.length - 1 : Math.min(Math.max(0, at + step), words.length - 1)];
  if (!next) return true;
  actions.point(wordUnder(next));
  next.scrollIntoView({ block: 'nearest' });
  return true;
}

interface TurnProps {
  turn: TurnView;
  lit: ReadonlySignal<LitWords>;
  scaleMs: number;
  label: number | null;
  hint: string | null;
}

function Turn({ turn, lit, scaleMs, label, hint }: TurnProps) {
  const running = turn.endMs === null;
  return (
    <li class="chat-turn" data-state={running ? 'running' : turn.error ? 'failed' : 'done'}>
      <p class="chat-question">
        {label !== null && (
          <span class="chat-label" data-talk={((label - 1) % 4) + 1}>
            Conversation {label}
          </span>
        )}
        <Spoken turn={turn} part="question" lit={lit} />
        {turn.edited && <span class="chat-edited">history was edited</span>}
      </p>
      <p class="chat-answer" aria-busy={running}>
        <Spoken turn={turn} part="answer" lit={lit} />
        {running && <span class="chat-caret" aria-hidden="true" />}
      </p>
      {turn.error && <p class="chat-error">{plainly(turn.error)}</p>}
      {hint && !running && <p class="chat-hint">{hint}</p>}
      {turn.result && <Account turn={turn} scaleMs={scaleMs} />}
    </li>
  );
}

function Spoken({ turn, part, lit }: { turn: TurnView; part: Part; lit: ReadonlySignal<LitWords> }) {
  const { turnId, edits } = turn;
  // A string, so that only changes cause a new rendering.
  const range = useComputed(() => lit.value.get(litKey({ turnId, part }))?.join(' ') ?? '');
  if (edits.length > 0) return <Said text={turn[part]} edits={edits} />;
  const [from, to] = range.value.split(' ').map(Number);
  return <Words turnId={turnId} part={part} text={turn[part]} lit={to === undefined ? null : [from!, to]} />;
}

/** The TTFT as a bar, and where the prompt's KV came from, in words. */
function Account({ turn, scaleMs }: { turn: TurnView; scaleMs: number }) {
  const { result } = turn;
  if (!result) return null;
  const { prompt_tokens, local_hit_tokens, pulled_tokens, computed_tokens } = result;
  const stored = storedTokens(result);
  const parts = [
    stored > 0 && `${stored} loaded from the store`,
    pulled_tokens > stored && `${pulled_tokens - stored} pulled from D`,
    local_hit_tokens > 0 && `${local_hit_tokens} found on ${reader(turn).replace('The', 'the')}`,
    `${computed_tokens} computed`,
  ].filter(Boolean);
  return (
    <div class="chat-account">
      <StageBar stagesMs={result.stages_ms} scaleMs={scaleMs} />
      <p class="chat-figures">
        <span class="number">{ms(result.ttft_ms)}</span> to the first token. {prompt_tokens} prompt tokens:{' '}
        {parts.join(', ')}
        {result.no_pull_reason ? `. Nothing pulled: ${plainly(result.no_pull_reason)}` : ''}
      </p>
    </div>
  );
}
