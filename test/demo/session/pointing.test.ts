import { describe, expect, it } from 'vitest';
import { litBlocks, litPlaces, litWords, wordOf } from '../../../demo/src/session/pointing.ts';
import type { Pointed, SessionEvent } from '../../../demo/src/session/types.ts';
import { block, turnReport } from '../views/fixture.ts';
import { fixtureState } from '../views/fixture-state.ts';

const TEXTS = ['<|user|>My name is Ada.<|assistant|>OK, your na', 'me is Ada.'];

/** A turn with the given block texts on P and on D; null for a block that does not hold it. */
function talked(pTexts: readonly (string | null)[], dTexts: readonly (string | null)[]) {
  const blocks = (engineId: string, texts: readonly (string | null)[]): SessionEvent => ({
    kind: 'blocks',
    atMs: 5,
    engineId,
    numBlocks: 10,
    changed: texts.flatMap((text, index) => (text === null ? [] : [block(index + 3, { index, text })])),
  });
  const engine = (engineId: string, role: 'prefill' | 'decode'): SessionEvent => {
    return { kind: 'engine', atMs: 0, engineId, role, alive: true, message: null };
  };
  const turn = { kind: 'turn_started', conversation: 'talk', turn: 1, mode: 'bidirectional' } as const;
  return fixtureState([
    engine('prefill-0', 'prefill'),
    engine('decode-0', 'decode'),
    { ...turn, atMs: 1, turnId: 't1', question: 'My name is Ada.', edited: false },
    { kind: 'turn_ended', atMs: 4, turnId: 't1', result: turnReport({ text: 'OK, your name is Ada.' }) },
    blocks('prefill-0', pTexts),
    blocks('decode-0', dTexts),
  ]);
}
const word = (part: 'question' | 'answer', start: number): Pointed => {
  return { at: 'word', turnId: 't1', part, start };
};

describe('a word that is pointed at', () => {
  it('lights its block in P and in D', () => {
    const state = talked([TEXTS[0]!], TEXTS);
    state.pointed.value = word('question', 11);
    expect(wordOf(state, word('question', 11) as never)).toBe('Ada.');
    expect(litBlocks(state)).toEqual({ conversation: 'talk', places: new Set([0]) });
    expect(litPlaces(state, state.pointed.value, 'prefill')).toEqual([3]);
    expect(litPlaces(state, state.pointed.value, 'decode')).toEqual([3]);
  });

  it('lights both blocks that contain it, and none of P if only D has them', () => {
    const state = talked([TEXTS[0]!], TEXTS);
    state.pointed.value = word('answer', 9);
    expect(litPlaces(state, state.pointed.value, 'decode')).toEqual([3, 4]);
    state.pointed.value = word('answer', 14);
    expect(litPlaces(state, state.pointed.value, 'prefill')).toEqual([]);
    expect(litPlaces(state, state.pointed.value, 'decode')).toEqual([4]);
  });

  it('lights nothing when no block contains it any more', () => {
    const state = talked([], [null, TEXTS[1]!]);
    state.pointed.value = word('question', 0);
    expect(litBlocks(state)).toBeNull();
  });
});

describe('a block that is pointed at', () => {
  it('lights only its own words', () => {
    const state = talked([], TEXTS);
    state.pointed.value = { at: 'block', role: 'decode', id: 4 };
    expect([...litWords(state)]).toEqual([['t1 answer', [11, 21]]]);
    state.pointed.value = { at: 'block', role: 'decode', id: 3 };
    expect([...litWords(state)]).toEqual([
      ['t1 question', [0, 15]],
      ['t1 answer', [0, 11]],
    ]);
    state.pointed.value = null;
    expect(litWords(state).size).toBe(0);
  });
});
