import type { SessionActions } from '../session/types.ts';
import { plural } from '../views/format.ts';
import { editedAnswerHas, ended } from './conditions.ts';
import type { LessonContent, Seen } from './types.ts';

const TOLD = 'My name is Ada and my boat is mira.';
const ASKED = 'What is my boat?';
const LAST = 'What do you know about me?';

async function rewrite(actions: SessionActions): Promise<void> {
  await actions.ask(TOLD);
  actions.editHistory('mira', 'luna');
  await actions.ask(ASKED);
}

async function rewriteChecked(actions: SessionActions): Promise<void> {
  await actions.begin({ tokenCheck: true });
  await rewrite(actions);
}

/** The turn after D's hold ran out, answered without pulling. */
const computedAll = (seen: Seen) =>
  ended(seen).find(
    ({ question, turn, result }) =>
      question === LAST && turn > 1 && result.pulled_tokens === 0 && result.computed_tokens > 0,
  );

export const wrongKv: LessonContent = {
  text: 'Each engine holds the blocks that the other one may still read: P under a lease that D’s heartbeats renew, D for a fixed time (its TTL). After that it frees them, read or not. Lost KV is bad, but wrong KV is worse. So kvferry compares the tokens behind the blocks with the prompt, and pulls only up to the first token that differs. This token check is off in step 1.',
  tasks: [
    {
      predict: {
        ask: 'You say that your boat is mira. Then the history is changed to say luna, and you ask for your boat. What will the answer say?',
        choices: ['luna', 'mira', 'An error'],
        cameTrue: (seen) => (editedAnswerHas(seen, 'mira', true) ? 1 : 0),
      },
      todo: 'Say “my boat is mira”, change the history to “luna”, ask for the boat',
      run: rewrite,
      see: 'The prompt says luna everywhere, but the answer says mira: P pulled KV that was computed from the old words. Before that, brackets in D marked the blocks that it held for P.',
      look: 'the chat',
      happened: (seen) => editedAnswerHas(seen, 'mira', true),
    },
    {
      predict: {
        ask: 'Now the same with the token check on. What will P pull?',
        choices: ['All of it, as before', 'Up to the first word that differs', 'Nothing'],
        cameTrue: () => 1,
      },
      todo: 'Turn the token check on, and do the same',
      run: rewriteChecked,
      see: 'Now the answer says luna. P pulled fewer tokens: only those before the first one that differs.',
      look: 'the chat',
      happened: (seen) => editedAnswerHas(seen, 'luna', false),
    },
    {
      predict: {
        ask: 'D holds its blocks of this conversation for P, but only for its TTL. You ask again after that time. What will the next answer be?',
        choices: ['Wrong', 'Right: P computes the whole prompt', 'None: the turn fails'],
        cameTrue: () => 1,
      },
      todo: 'Let D’s hold run out, and ask “What do you know about me?”',
      run: async (actions, state) => {
        // If the previous step was skipped, D holds nothing yet.
        if (state.turns.peek().length < 2) await rewriteChecked(actions);
        await actions.expireHold();
        await actions.ask(LAST);
      },
      see: 'D had freed its blocks. P asked for them, got none, and computed the whole prompt. The answer still says luna. Lost KV costs time. Wrong KV, as in step 1, costs the answer.',
      figures: (seen) => {
        const { result } = computedAll(seen) ?? {};
        if (!result) return null;
        return `P computed ${result.computed_tokens} of ${plural(result.prompt_tokens, 'prompt token')}, and pulled none.`;
      },
      look: 'the chat',
      happened: (seen) => computedAll(seen) !== undefined,
    },
  ],
  question: 'Nothing crashed when the KV was wrong. How would you notice it in production?',
  answer:
    'You would hardly notice: the text reads well. That is why the tokens behind the blocks must be compared before the blocks are used. It is also why kvferry’s tests damage KV on purpose and require that the logits show it.',
};
