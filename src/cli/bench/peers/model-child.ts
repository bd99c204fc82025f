/** An answerer's process: loads the model once, then answers the same prompt on request. */
import { ConfigError, messageOf } from '../../../errors.ts';
import { useAdapter } from '../../../platform/node.ts';
import type { Answer } from '../engine/alone.ts';
import { type AnswererName, type AnswerPrompts, answerers, type Question } from './answerers.ts';
import type { Failed } from './turns.ts';

export type ToAnswerer =
  | { kind: 'prepare'; answerer: AnswererName; adapter: string; question: Question }
  | { kind: 'round'; prompts: number[][] };

export type FromAnswerer = { kind: 'ready' } | { kind: 'done'; answer: Answer } | Failed;

const send = (message: FromAnswerer) => process.send!(message);
let answerPrompts: AnswerPrompts;

process.on('message', async (message: ToAnswerer) => {
  try {
    if (message.kind === 'prepare') {
      await useAdapter(message.adapter);
      answerPrompts = await answerers[message.answerer](message.question);
      send({ kind: 'ready' });
    } else {
      send({ kind: 'done', answer: await answerPrompts(message.prompts) });
    }
  } catch (error) {
    send({ kind: error instanceof ConfigError ? 'missing' : 'failed', why: messageOf(error) });
  }
});
