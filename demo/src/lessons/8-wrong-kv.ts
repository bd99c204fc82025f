import { editedAnswerHas, ended } from './seen.ts';
import type { LessonContent } from './types.ts';

const TOLD = 'My name is Ada and my boat is mira.';
const ASKED = 'What is my boat?';

export const wrongKv: LessonContent = {
  text: 'Whoever has blocks for somebody else holds them: P under a lease that D’s heartbeats renew, D for a fixed time (its TTL). Then they are freed, read or not. Worse than KV that is gone is KV that is wrong. kvferry compares the tokens behind the blocks with the prompt, and pulls no further than the first that differs. In this lesson that check is off.',
  tasks: [
    {
      predict: {
        ask: 'You say that your boat is mira. Then the history is rewritten to luna, and the boat is asked for. What will it say?',
        choices: ['luna', 'mira', 'An error'],
        cameTrue: (seen) => (editedAnswerHas(seen, 'mira', true) ? 1 : 0),
      },
      todo: 'Tell it “my boat is mira”, rewrite history to “luna”, ask for the boat',
      run: async (actions) => {
        await actions.ask(TOLD);
        actions.editHistory('mira', 'luna');
        await actions.ask(ASKED);
      },
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
      run: async (actions) => {
        await actions.begin({ tokenCheck: true });
        await actions.ask(TOLD);
        actions.editHistory('mira', 'luna');
        await actions.ask(ASKED);
      },
      see: 'Now it says luna: fewer tokens were pulled, up to the first that differed.',
      look: 'the chat',
      happened: (seen) => editedAnswerHas(seen, 'luna', false),
    },
    {
      predict: {
        ask: 'D’s hold runs out before the next question. What becomes of the answer?',
        choices: ['It is wrong', 'It is right: P computes it all', 'It fails'],
        cameTrue: () => 1,
      },
      todo: 'Let D’s hold run out, and ask once more',
      run: async (actions) => {
        await actions.expireHold();
        await actions.ask('What do you know about me?');
      },
      see: 'D freed its blocks. P gets nothing, computes all of it, and the answer is still right.',
      look: 'the blocks of P and D',
      happened: (seen) =>
        ended(seen).some(
          ({ result, turn }) => turn > 2 && result.pulled_tokens === 0 && result.computed_tokens > 0,
        ),
    },
  ],
  question: 'Nothing crashed when the KV was wrong. How would you notice it in production?',
  answer:
    'Hardly: the text reads well. That is why the blocks’ tokens must be compared before they are used, and why this project’s tests damage KV on purpose and demand that the answers’ logits show it.',
};
