import { describe, expect, test } from 'vitest';
import type { FinishReason, RequestOutput } from '../../src/engine/types.ts';
import { readAnswer } from '../../src/router/answer.ts';
import type { TimedOutput } from '../../src/router/output-stream.ts';

const EOS = 0;
const prompt = { promptTokens: 3, localHitTokens: 0, pulledTokens: 0, computedTokens: 3, noPull: null };
const finish = (reason: FinishReason) => ({ reason, error: null, kvTransferParams: null, numPreemptions: 0 });

function output(tokenIds: number[], end: FinishReason | null): TimedOutput {
  const tokens = tokenIds.map((tokenId) => ({ requestId: 'r', tokenId, logitsDigest: '', logits: null }));
  const times = { arrivalMs: 0, queuedMs: 0, scheduledMs: 0 };
  const made: RequestOutput = { requestId: 'r', tokens, prompt, times, finish: end && finish(end) };
  return { output: made, atMs: 0 };
}

/** Token i is words[i]; the engine goes on until it is told to stop, or the words end. */
async function answer(
  words: string[],
  options: {
    stop?: string[];
    includeStop?: boolean;
    minTokens?: number;
    end?: FinishReason;
    last?: number;
    eos?: number;
  } = {},
) {
  let stopped = 0;
  async function* outputs() {
    for (let i = 0; i < words.length; i++) {
      if (stopped > 0 && i > stopped + 1) {
        // One more token was on its way.
        yield output([], 'stop');
        return;
      }
      const last = i === words.length - 1;
      yield output([last ? (options.last ?? i + 10) : i + 10], last ? (options.end ?? 'length') : null);
    }
  }
  const given: string[] = [];
  let end = null;
  let index = 0;
  for await (const item of readAnswer(outputs(), {
    decoder: { push: (id) => words[id - 10] ?? '', end: () => '' },
    eosTokenIds: [options.eos ?? EOS],
    stop: options.stop ?? [],
    includeStop: options.includeStop ?? false,
    minTokens: options.minTokens ?? 0,
    onStop: () => {
      stopped = index;
    },
  })) {
    expect(item.index).toBe(index++);
    given.push(item.text);
    end = item.end;
  }
  const { reason, stopReason, keptTokens, unsaidEnd } = end!;
  return { given, text: given.join(''), reason, stopReason, keptTokens, unsaidEnd };
}

describe('text of an answer', () => {
  test('without stop strings every token gives its text at once', async () => {
    expect(await answer(['a', 'b', 'c'])).toEqual({
      ...{ given: ['a', 'b', 'c'], text: 'abc', reason: 'length', stopReason: null, keptTokens: 3 },
      unsaidEnd: false,
    });
  });

  test('the token that ends an answer has no text; an end token stays in the history, another does not', async () => {
    const eos = await answer(['a', 'b', 'c'], { end: 'stop', last: EOS });
    expect(eos).toMatchObject({ text: 'ab', reason: 'stop', stopReason: null, keptTokens: 3 });
    const other = await answer(['a', 'b', 'c'], { end: 'stop', last: 12 });
    expect(other).toMatchObject({ text: 'ab', reason: 'stop', stopReason: 12, keptTokens: 2 });
  });

  test('a stop string over several tokens: what may be its start waits, and is given when it is not', async () => {
    expect(await answer(['x', 'E', 'N', 'x', 'E', 'ND', 'y', 'z'], { stop: ['END'] })).toEqual({
      given: ['x', '', '', 'ENx', '', ''],
      ...{ text: 'xENx', reason: 'stop', stopReason: 'END', keptTokens: 4 },
      unsaidEnd: false,
    });
  });

  test('one that begins or ends inside a token leaves no tokens that say exactly the answer', async () => {
    const inside = await answer(['ab', 'cSTOPd', 'e', 'f'], { stop: ['STOP'] });
    expect(inside).toMatchObject({ text: 'abc', stopReason: 'STOP', keptTokens: null });
  });

  test('it stays in the text when asked for', async () => {
    const kept = await answer(['a', 'EN', 'D', 'x', 'y'], { stop: ['END'], includeStop: true });
    expect(kept).toMatchObject({ text: 'aEND', stopReason: 'END', keptTokens: 3 });
  });

  test('the first of several in the text counts; one at the very start leaves nothing', async () => {
    expect(await answer(['ab', 'c', 'd', 'e'], { stop: ['c', 'b'] })).toMatchObject({
      text: 'a',
      stopReason: 'b',
    });
    expect(await answer(['ab', 'c', 'd'], { stop: ['ab'] })).toMatchObject({ text: '', keptTokens: 0 });
  });

  test('not in the first minTokens', async () => {
    const late = await answer(['S', 'a', 'S', 'b', 'c'], { stop: ['S'], minTokens: 1 });
    expect(late).toMatchObject({ text: 'Sa', stopReason: 'S', keptTokens: 2 });
  });

  test('one that begins in the first minTokens and ends after them counts', async () => {
    const across = await answer(['a', '##', '#', 'b', 'c'], { stop: ['###'], minTokens: 2 });
    expect(across).toMatchObject({ given: ['a', '', ''], text: 'a', stopReason: '###', keptTokens: 1 });
    const within = await answer(['a', '###', 'b', 'c'], { stop: ['###'], minTokens: 2 });
    expect(within).toMatchObject({ text: 'a###bc', reason: 'length' });
    const overlapping = await answer(['#', '#', '#', 'b', 'c'], { stop: ['##'], minTokens: 2 });
    expect(overlapping).toMatchObject({ text: '#', stopReason: '##', keptTokens: 1 });
  });

  test('of several that one token completes the first of the list counts', async () => {
    const both = await answer(['xab', 'c', 'd'], { stop: ['b', 'a'] });
    expect(both).toMatchObject({ text: 'xa', stopReason: 'b' });
  });

  test('a stop token keeps its text where what stops is asked for; one without text stays out', async () => {
    const kept = await answer(['a', 'b', 'c'], { end: 'stop', includeStop: true });
    expect(kept).toMatchObject({ text: 'abc', stopReason: 12, keptTokens: 3, unsaidEnd: false });
    const silent = await answer(['a', 'b', ''], { end: 'stop', includeStop: true });
    expect(silent).toMatchObject({ text: 'ab', stopReason: 12, keptTokens: 2 });
    const eos = await answer(['a', 'b', 'c'], { end: 'stop', last: EOS });
    expect(eos).toMatchObject({ keptTokens: 3, unsaidEnd: true });
    const said = await answer(['a', 'b'], { end: 'stop', eos: 11, includeStop: true });
    expect(said).toMatchObject({ text: 'ab', stopReason: null, keptTokens: 2, unsaidEnd: false });
  });

  test('what was held back is given when the answer ends without the rest', async () => {
    expect(await answer(['a', 'E', 'N'], { stop: ['END'] })).toMatchObject({ text: 'aEN', reason: 'length' });
  });

  test('one completed by the last token still counts', async () => {
    const both = await answer(['a', 'EN', 'D'], { stop: ['END'] });
    expect(both).toMatchObject({ text: 'a', reason: 'stop', stopReason: 'END', keptTokens: 1 });
  });
});
