import type { SessionActions } from '../session/types.ts';
import { plural } from '../views/format.ts';
import { editedAnswerHas, ended } from './seen.ts';
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

/** The question after D's hold ran out, answered without it. */
const computedAll = (seen: Seen) =>
  ended(seen).find(
    ({ question, turn, result }) =>
      question === LAST && turn > 1 && result.pulled_tokens === 0 && result.computed_tokens > 0,
  );

export const wrongKv: LessonContent = {
  text: 'Whoever has blocks for somebody else holds them: P under a lease that D’s heartbeats renew, D for a fixed time (its TTL). Then they are freed, read or not. Worse than KV that is gone is KV that is wrong. kvferry compares the tokens behind the blocks with the prompt, and pulls no further than the first that differs. That check is off in step 1.',
  tasks: [
    {
      predict: {
        ask: 'You say that your boat is mira. Then the history is rewritten to luna, and the boat is asked for. What will it say?',
        choices: ['luna', 'mira', 'An error'],
        cameTrue: (seen) => (editedAnswerHas(seen, 'mira', true) ? 1 : 0),
      },
      todo: 'Tell it “my boat is mira”, rewrite history to “luna”, ask for the boat',
      run: rewrite,
      see: 'The prompt says luna everywhere. The answer says mira: P pulled KV that was made from the old words. Before that, brackets in D: the blocks that it held for P.',
      look: 'the chat',
      happened: (seen) => editedAnswerHas(seen, 'mira', true),
    },
    {
      predict: {
        ask: 'The same with the check on. What will P pull?',
        choices: ['All of it, as before', 'Up to the first word that differs', 'Nothing'],
        cameTrue: () => 1,
      },
      todo: 'Turn the token check on, and do the same',
      run: rewriteChecked,
      see: 'Now it says luna: fewer tokens were pulled, up to the first that differed.',
      look: 'the chat',
      happened: (seen) => editedAnswerHas(seen, 'luna', false),
    },
    {
      predict: {
        ask: 'D keeps its blocks of this conversation for P, but only for its TTL. That time is over before you ask again. What will the next answer be?',
        choices: ['Wrong', 'Right: P computes the whole prompt', 'None: the turn fails'],
        cameTrue: () => 1,
      },
      todo: 'Let D’s time run out, and ask “What do you know about me?”',
      run: async (actions, state) => {
        // Without the step before this one there is nothing that D could hold.
        if (state.turns.peek().length < 2) await rewriteChecked(actions);
        await actions.expireHold();
        await actions.ask(LAST);
      },
      see: 'D had freed its blocks, so P asked for them and got none, and computed the whole prompt. The answer still says luna: KV that is gone costs time. KV that is wrong, as in step 1, costs the answer.',
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
    'Hardly: the text reads well. That is why the blocks’ tokens must be compared before they are used, and why this project’s tests damage KV on purpose and demand that the answers’ logits show it.',
};
