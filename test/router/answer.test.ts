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

/** Token i + 10 decodes to words[i]. The engine continues until it is told to stop or the words end. */
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
        // One more token was already under way.
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

describe('the text of an answer', () => {
  test('includes each token’s text at once if there are no stop strings', async () => {
    expect(await answer(['a', 'b', 'c'])).toEqual({
      ...{ given: ['a', 'b', 'c'], text: 'abc', reason: 'length', stopReason: null, keptTokens: 3 },
      unsaidEnd: false,
    });
  });

  test('omits the token that ends it; an EOS token stays in the history, a stop token does not', async () => {
    const eos = await answer(['a', 'b', 'c'], { end: 'stop', last: EOS });
    expect(eos).toMatchObject({ text: 'ab', reason: 'stop', stopReason: null, keptTokens: 3 });
    const other = await answer(['a', 'b', 'c'], { end: 'stop', last: 12 });
    expect(other).toMatchObject({ text: 'ab', reason: 'stop', stopReason: 12, keptTokens: 2 });
  });

  test('is held back while it may begin a stop string, and released once it does not', async () => {
    expect(await answer(['x', 'E', 'N', 'x', 'E', 'ND', 'y', 'z'], { stop: ['END'] })).toEqual({
      given: ['x', '', '', 'ENx', '', ''],
      ...{ text: 'xENx', reason: 'stop', stopReason: 'END', keptTokens: 4 },
      unsaidEnd: false,
    });
  });

  test('has no exact tokens if a stop string begins or ends inside a token', async () => {
    const inside = await answer(['ab', 'cSTOPd', 'e', 'f'], { stop: ['STOP'] });
    expect(inside).toMatchObject({ text: 'abc', stopReason: 'STOP', keptTokens: null });
  });

  test('includes the stop string with includeStop', async () => {
    const kept = await answer(['a', 'EN', 'D', 'x', 'y'], { stop: ['END'], includeStop: true });
    expect(kept).toMatchObject({ text: 'aEND', stopReason: 'END', keptTokens: 3 });
  });

  test('ends at the stop string that comes first in it, even at its very start', async () => {
    expect(await answer(['ab', 'c', 'd', 'e'], { stop: ['c', 'b'] })).toMatchObject({
      text: 'a',
      stopReason: 'b',
    });
    expect(await answer(['ab', 'c', 'd'], { stop: ['ab'] })).toMatchObject({ text: '', keptTokens: 0 });
  });

  test('includes stop strings within the first minTokens', async () => {
    const late = await answer(['S', 'a', 'S', 'b', 'c'], { stop: ['S'], minTokens: 1 });
    expect(late).toMatchObject({ text: 'Sa', stopReason: 'S', keptTokens: 2 });
  });

  test('ends at a stop string that begins within the first minTokens and ends after them', async () => {
    const across = await answer(['a', '##', '#', 'b', 'c'], { stop: ['###'], minTokens: 2 });
    expect(across).toMatchObject({ given: ['a', '', ''], text: 'a', stopReason: '###', keptTokens: 1 });
    const within = await answer(['a', '###', 'b', 'c'], { stop: ['###'], minTokens: 2 });
    expect(within).toMatchObject({ text: 'a###bc', reason: 'length' });
    const overlapping = await answer(['#', '#', '#', 'b', 'c'], { stop: ['##'], minTokens: 2 });
    expect(overlapping).toMatchObject({ text: '#', stopReason: '##', keptTokens: 1 });
  });

  test('ends at the first in the list of several stop strings that one token completes', async () => {
    const both = await answer(['xab', 'c', 'd'], { stop: ['b', 'a'] });
    expect(both).toMatchObject({ text: 'xa', stopReason: 'b' });
  });

  test('includes a stop or EOS token’s text with includeStop, unless the token has no text', async () => {
    const kept = await answer(['a', 'b', 'c'], { end: 'stop', includeStop: true });
    expect(kept).toMatchObject({ text: 'abc', stopReason: 12, keptTokens: 3, unsaidEnd: false });
    const silent = await answer(['a', 'b', ''], { end: 'stop', includeStop: true });
    expect(silent).toMatchObject({ text: 'ab', stopReason: 12, keptTokens: 2 });
    const eos = await answer(['a', 'b', 'c'], { end: 'stop', last: EOS });
    expect(eos).toMatchObject({ keptTokens: 3, unsaidEnd: true });
    const said = await answer(['a', 'b'], { end: 'stop', eos: 11, includeStop: true });
    expect(said).toMatchObject({ text: 'ab', stopReason: null, keptTokens: 2, unsaidEnd: false });
  });

  test('includes held-back text if the answer ends before the stop string is complete', async () => {
    expect(await answer(['a', 'E', 'N'], { stop: ['END'] })).toMatchObject({ text: 'aEN', reason: 'length' });
  });

  test('ends at a stop string that the last token completes', async () => {
    const both = await answer(['a', 'EN', 'D'], { stop: ['END'] });
    expect(both).toMatchObject({ text: 'a', reason: 'stop', stopReason: 'END', keptTokens: 1 });
  });
});
