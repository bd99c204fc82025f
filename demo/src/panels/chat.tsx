/** The conversation: what was said, where each answer's first token went, and what to ask next. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isConversation } from '../session/conversation.ts';
import type { Session, TurnView } from '../session/types.ts';
import { ms } from '../views/format.ts';
import { plainly } from '../views/plain-words.ts';
import { StageBar } from '../views/stage-bar.tsx';
import { reader } from '../views/story.ts';

export function Chat({ session }: { session: Session }) {
  const { state } = session;
  const turns = state.turns.value.filter(isConversation);
  const conversations = [...new Set(turns.map((turn) => turn.conversation))];
  return (
    <section class="chat" aria-label="Conversation">
      <TurnList turns={turns} conversations={conversations} />
      <Composer session={session} />
    </section>
  );
}

function TurnList({
  turns,
  conversations,
}: {
  turns: readonly TurnView[];
  conversations: readonly string[];
}) {
  const end = useRef<HTMLOListElement>(null);
  const last = turns.at(-1);
  const scaleMs = Math.max(...turns.map((turn) => turn.result?.ttft_ms ?? 0), 1);
  const follows = useRef(true);
  useEffect(() => {
    follows.current = true;
  }, [turns.length]);
  // Follows the newest turn, until the reader scrolls up to read an older one.
  useEffect(() => {
    const list = end.current;
    if (list && follows.current) list.scrollTop = list.scrollHeight;
  }, [last?.turnId, last?.tokens, last?.endMs]);
  if (turns.length === 0) {
    return <p class="chat-empty">Nobody said anything yet. Ask below, or press Play.</p>;
  }
  return (
    <ol
      class="chat-turns"
      ref={end}
      aria-live="polite"
      aria-relevant="additions"
      onWheel={(event) => {
        if (event.deltaY < 0) follows.current = false;
      }}
      onTouchMove={() => {
        follows.current = false;
      }}
      onScroll={({ currentTarget: list }) => {
        if (list.scrollHeight - list.scrollTop - list.clientHeight < 8) follows.current = true;
      }}
    >
      {turns.map((turn) => (
        <Turn
          key={turn.turnId}
          turn={turn}
          scaleMs={scaleMs}
          label={conversations.length > 1 ? conversations.indexOf(turn.conversation) + 1 : null}
        />
      ))}
    </ol>
  );
}

function Turn({ turn, scaleMs, label }: { turn: TurnView; scaleMs: number; label: number | null }) {
  const running = turn.endMs === null;
  return (
    <li class="chat-turn" data-state={running ? 'running' : turn.error ? 'failed' : 'done'}>
      <p class="chat-question">
        {label !== null && <span class="chat-label">Conversation {label}</span>}
        <Said text={turn.question} edits={turn.edits} />
        {turn.edited && <span class="chat-edited">history was edited</span>}
      </p>
      <p class="chat-answer" aria-busy={running}>
        <Said text={turn.answer} edits={turn.edits} />
        {running && <span class="chat-caret" aria-hidden="true" />}
      </p>
      {turn.error && <p class="chat-error">{plainly(turn.error)}</p>}
      {turn.result && <Account turn={turn} scaleMs={scaleMs} />}
    </li>
  );
}

/** What was said; where the user rewrote it, the old word struck through beside the new one. */
function Said({ text, edits }: { text: string } & Pick<TurnView, 'edits'>) {
  const [edit, ...later] = edits;
  if (!edit) return <>{text}</>;
  return (
    <>
      {text
        .split(edit.from)
        .flatMap((part, i) => [
          ...(i === 0
            ? []
            : [<del key={`del ${i}`}>{edit.from}</del>, <ins key={`ins ${i}`}>{edit.to}</ins>]),
          <Said key={`part ${i}`} text={part} edits={later} />,
        ])}
    </>
  );
}

/** TTFT as a bar, and the prompt's account in words. */
function Account({ turn, scaleMs }: { turn: TurnView; scaleMs: number }) {
  const { result } = turn;
  if (!result) return null;
  const { prompt_tokens, local_hit_tokens, pulled_tokens, computed_tokens } = result;
  const parts = [
    pulled_tokens > 0 && `${pulled_tokens} pulled from D`,
    local_hit_tokens > 0 && `${local_hit_tokens} found on ${reader(turn).replace('The', 'the')}`,
    `${computed_tokens} computed`,
  ].filter(Boolean);
  return (
    <div class="chat-account">
      <StageBar stagesMs={result.stages_ms} scaleMs={scaleMs} />
      <p class="chat-figures">
        <span class="number">{ms(result.ttft_ms)}</span> to the first token; of {prompt_tokens} prompt tokens{' '}
        {parts.join(', ')}
        {result.no_pull_reason ? ` (no pull: ${plainly(result.no_pull_reason)})` : ''}
      </p>
    </div>
  );
}

function Composer({ session: { state, actions } }: { session: Session }) {
  const text = useSignal('');
  const { phase } = state.status.value;
  const ready = phase === 'ready';
  const recorded = phase === 'recorded';
  const ask = (question: string) => {
    if (!ready || question.trim() === '') return;
    text.value = '';
    void actions.ask(question);
  };
  return (
    <form
      class="chat-composer"
      onSubmit={(event) => {
        event.preventDefault();
        ask(text.value);
      }}
    >
      {!recorded && (
        <ul class="chat-suggestions" aria-label="Suggested questions">
          {state.suggestions.value.map((question) => (
            <li key={question}>
              <button type="button" class="chip" disabled={!ready} onClick={() => ask(question)}>
                {question}
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="chat-line">
        <input
          type="text"
          aria-label="Your message"
          placeholder={recorded ? 'A recording cannot be asked' : 'Ask about what was said'}
          autocomplete="off"
          disabled={recorded}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value;
          }}
        />
        {phase === 'busy' ? (
          <button type="button" class="chat-stop" onClick={() => actions.stop()}>
            Stop
          </button>
        ) : (
          <button type="submit" class="primary" disabled={!ready}>
            Ask
          </button>
        )}
      </div>
    </form>
  );
}
