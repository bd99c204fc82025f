/** Suggested questions. Questions about the assistant's answers come first, because they need D's KV. */
import { shippedConversation } from '../../../../src/workload/shipped.ts';
import type { Message } from '../../../../src/workload/types.ts';

/** The user's side of the shipped conversation, in order. */
export const script: readonly string[] = shippedConversation.turns.map((turn) => turn[0]!.content);

/** The words replaced for the second user's conversation. */
const others: Readonly<Record<string, string>> = {
  Ada: 'Ben',
  mira: 'luna',
  Gus: 'Finn',
  bear: 'fox',
  Zorblax: 'Milo',
  horse: 'cat',
  Nora: 'Ivy',
  crow: 'frog',
};

export const secondScript: readonly string[] = script.map((line) =>
  line.replace(/\w+/g, (word) => others[word] ?? word),
);

/** What the shipped model can answer, for users who ask questions of their own. */
export const ABILITIES =
  'This small model remembers facts that you tell it, makes up stories, answers questions about both, and counts. It knows nothing about the world.';

/** Beginnings of questions that the model was trained on (models/recall/training/corpus.py). */
const LEARNT = [
  /^(now |remember that )?my \w+( \w+)? is /i,
  /^(what is|do you remember) my /i,
  /^what do you know about me/i,
  /^tell me a story/i,
  /^who (came|is the story about)/i,
  /^(what did|where did|what colou?r|which animal) /i,
  /^(count from|repeat after me)/i,
];

/** A hint below the answer to a question that the model was not trained on; null if it may know the answer. */
export function beyond(model: string, question: string): string | null {
  if (model !== 'recall' || LEARNT.some((known) => known.test(question.trim()))) return null;
  return 'The model was not trained to answer that. Try “My name is Ada.” or “Tell me a story about Gus and a bear.”, and then ask about them.';
}

const ABOUT = /story about (\w+) and an? (\w+)/i;

const general = [
  'What did you just say?',
  'Say it again in fewer words.',
  'What was the first thing I told you?',
];

export function suggest(model: string, messages: readonly Message[]): string[] {
  if (model !== 'recall') {
    return messages.length === 0 ? ['Tell me a short story about a ferry.'] : general;
  }
  const said = messages.filter(({ role }) => role === 'user').map(({ content }) => content);
  const onScript = said.every((line, i) => line === script[i]) && said.length < script.length;
  const next = onScript ? [script[said.length]!] : [];
  const story = said.map((line) => ABOUT.exec(line)).findLast((match) => match !== null);
  const about = story
    ? [
        `What color was the ${story[2]}?`,
        `What did ${story[1]} find?`,
        'Who came?',
        `Where did ${story[1]} live?`,
      ]
    : [];
  const fresh = [
    'What do you know about me?',
    'Tell me a story about Finn and a fox.',
    'My robot is called zorb.',
  ];
  const all = [...next, ...about, ...fresh].filter((line, i, list) => list.indexOf(line) === i);
  return all.filter((line) => line !== said.at(-1)).slice(0, 4);
}
