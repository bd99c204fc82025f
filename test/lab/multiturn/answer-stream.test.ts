import { describe, expect, test } from 'vitest';
import { RequestError } from '../../../src/errors.ts';
import { AnswerStream } from '../../../src/lab/multiturn/answer-stream.ts';

const event = (chunk: object): string => `data: ${JSON.stringify(chunk)}\n\n`;
const added = (content: string): string => event({ choices: [{ delta: { content } }] });

describe('a streamed answer', () => {
  test('is timed from the beginning of its request, chunk by chunk, with thoughts but without empty chunks', () => {
    let ms = 1000;
    const stream = new AnswerStream(ms, () => ms);
    const feedAt = (atMs: number, text: string) => {
      ms = 1000 + atMs;
      stream.feed(text);
    };
    feedAt(5, event({ choices: [{ delta: { content: '' } }] }));
    feedAt(10, event({ choices: [{ delta: { reasoning: 'hm ' } }] }));
    feedAt(13, added('a').slice(0, 9));
    feedAt(14, added('a').slice(9));
    feedAt(20, added('b'));
    feedAt(21, event({ choices: [], usage: { prompt_tokens: 4, completion_tokens: 3 } }));
    feedAt(22, 'data: [DONE]');
    expect(stream.doneMs).toBeNull();
    stream.end();
    const { firstMs, gapsMs, doneMs, thoughts, text, chunks, usage } = stream;
    expect({ firstMs, gapsMs, doneMs, thoughts, text, chunks }).toEqual({
      firstMs: 10,
      gapsMs: [4, 6],
      doneMs: 22,
      thoughts: 'hm ',
      text: 'ab',
      chunks: 3,
    });
    expect(usage).toEqual({ prompt_tokens: 4, completion_tokens: 3 });
  });

  test.each([
    ['data: {"error": "overloaded"}\n\n', 'the server reported: overloaded'],
    ['data: nonsense\n\n', 'the stream has an event that is not JSON: nonsense'],
    ['data: 7\n\n', 'the stream has an event that is not a completion chunk: 7'],
  ])('refuses %j', (text, message) => {
    const stream = new AnswerStream(0, () => 0);
    expect(() => stream.feed(text)).toThrow(new RequestError(message));
  });
});
