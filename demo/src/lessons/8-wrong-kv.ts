import { editedAnswerHas, ended } from './seen.ts';
import type { Lesson } from './types.ts';

const TOLD = 'My name is Ada and my boat is mira.';
const ASKED = 'What is my boat?';

export const wrongKv: Lesson = {
  number: 8,
  title: 'Holds, leases, and wrong KV',
  text: 'Whoever has blocks for somebody else holds them: P under a lease that D’s heartbeats renew, D for a fixed time (its TTL). Then they are freed, read or not. Worse than KV that is gone is KV that is wrong. kvferry compares the tokens behind the blocks with the prompt, and pulls no further than the first that differs. In this lesson that check is off.',
  settings: { mode: 'bidirectional', threshold: 0, tokenCheck: false },
  tasks: [
    {
      todo: 'Tell it “my boat is mira”, rewrite history to “luna”, ask for the boat',
      run: async (actions) => {
        await actions.ask(TOLD);
        actions.editHistory('mira', 'luna');
        await actions.ask(ASKED);
      },
      see: 'The prompt says luna everywhere. The answer says mira: P pulled KV that was made from the old words. Before that, brackets in D: the blocks that it held for P.',
      happened: (seen) => editedAnswerHas(seen, 'mira', true),
    },
    {
      todo: 'Turn the token check on, and do the same',
      run: async (actions) => {
        await actions.configure({ tokenCheck: true });
        await actions.reset();
        await actions.ask(TOLD);
        actions.editHistory('mira', 'luna');
        await actions.ask(ASKED);
      },
      see: 'Now it says luna: fewer tokens were pulled, up to the first that differed.',
      happened: (seen) => editedAnswerHas(seen, 'luna', false),
    },
    {
      todo: 'Let D’s hold run out, and ask once more',
      run: async (actions) => {
        await actions.expireHold();
        await actions.ask('What do you know about me?');
      },
      see: 'D freed its blocks. P gets nothing, computes all of it, and the answer is still right.',
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
