/** The conversation so far, suggested questions, and the message field. */
import { useSignal } from '@preact/signals';
import { isConversation, talksOf } from '../session/conversation/conversation.ts';
import { ABILITIES } from '../session/conversation/suggestions.ts';
import type { Session } from '../session/types.ts';
import { Button } from '../views/button.tsx';
import { TurnList } from './turn-list.tsx';

export function Chat({ session }: { session: Session }) {
  const { state } = session;
  const turns = state.turns.value.filter(isConversation);
  return (
    <section class="chat" aria-label="Conversation">
      <TurnList session={session} turns={turns} conversations={talksOf(turns)} />
      <Composer session={session} />
    </section>
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
          {state.suggestions.value.map((question, i) => (
            // The focus stays at its place when the suggestions change.
            <li key={`${i}`}>
              <Button class="chip" off={!ready} onClick={() => ask(question)}>
                {question}
              </Button>
            </li>
          ))}
        </ul>
      )}
      {!recorded && state.settings.value.model === 'recall' && <p class="chat-knows">{ABILITIES}</p>}
      <div class="chat-line">
        <input
          type="text"
          aria-label="Your message"
          placeholder={recorded ? 'You cannot ask a recording' : 'Ask about what was said'}
          autocomplete="off"
          disabled={recorded}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value;
          }}
        />
        {phase === 'busy' ? (
          <Button class="chat-stop" inPlace onClick={() => actions.stop()}>
            Stop
          </Button>
        ) : (
          <Button type="submit" class="primary" off={!ready}>
            Ask
          </Button>
        )}
      </div>
    </form>
  );
}
