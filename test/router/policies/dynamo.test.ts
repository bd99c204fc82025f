import { describe, expect, test } from 'vitest';
import { policyOf, view } from '../policies.ts';
import { chosen, ended, prefilled, scoresOf, sent, tokens, told } from './fleet.ts';

const dynamo = (parameters: object = {}, draws?: number[]) => policyOf('dynamo', parameters, draws);
const [TWO_P, TWO_D] = [
  [view('p0'), view('p1')],
  [view('d0'), view('d1')],
];
const cached = (by: Record<string, number>) => (engineId: string) => by[engineId] ?? 0;

describe('cost', () => {
  test('one P and one D: the blocks of the prompt', () => {
    expect(scoresOf(dynamo(), [view('p0')], [view('d0')])).toEqual({ p0: 7, d0: 7 });
    expect(scoresOf(dynamo(), [view('p0')], [view('d0')], { promptTokenIds: [] })).toEqual({ p0: 0, d0: 0 });
  });

  test('P is credited whole blocks that it has, D is not', () => {
    const cachedTokens = cached({ p1: 47, d1: 96 });
    const scores = scoresOf(dynamo({ conditionalDisagg: null }), TWO_P, TWO_D, { cachedTokens });
    expect(scores).toEqual({ p0: 7, p1: 5, d0: 7, d1: 7 });
  });

  test('what is under way at P counts until it is prefilled, at D until it ended', () => {
    const policy = dynamo();
    const number = sent(policy, 'p0', 'd0', tokens(160));
    expect(scoresOf(policy, TWO_P, TWO_D)).toEqual({ p0: 17, p1: 7, d0: 17, d1: 7 });
    policy.observe?.(prefilled(number, 'p0'));
    expect(scoresOf(policy, TWO_P, TWO_D)).toEqual({ p0: 7, p1: 7, d0: 17, d1: 7 });
    policy.observe?.(ended(number));
    expect(scoresOf(policy, TWO_P, TWO_D)).toEqual({ p0: 7, p1: 7, d0: 7, d1: 7 });
  });

  test('what P has already is no work under way', () => {
    const policy = dynamo();
    sent(policy, 'p0', 'd0', tokens(160), { cachedTokens: cached({ p0: 128 }) });
    expect(scoresOf(policy, TWO_P, TWO_D)).toMatchObject({ p0: 9, p1: 7 });
  });

  test('a credit never makes a cost negative', () => {
    const cachedTokens = cached({ p0: 96 });
    expect(scoresOf(dynamo({ overlapCredit: 4 }), TWO_P, TWO_D, { cachedTokens }).p0).toBe(0);
  });

  test('prefillLoadScale scales', () => {
    expect(scoresOf(dynamo({ prefillLoadScale: 0.5 }), TWO_P, TWO_D).p0).toBe(3.5);
  });
});

describe('temperature', () => {
  // Costs 7 and 4 are 1 and 0: weights exp(-1/0.5) = 0.135 and 1; the first has 0.119 of all.
  const cachedTokens = cached({ p1: 48 });
  const at = (temperature: number, draw: number) =>
    chosen(dynamo({ temperature, conditionalDisagg: null }, [draw]), TWO_P, [view('d0')], { cachedTokens });
  test.each([
    [0, 0, 'p1 d0'],
    [0.5, 0.118, 'p0 d0'],
    [0.5, 0.12, 'p1 d0'],
    // At 5: 0.819 and 1, the first has 0.4502.
    [5, 0.45, 'p0 d0'],
    [5, 0.451, 'p1 d0'],
  ])('%f with a draw of %f: %s', (temperature, draw, expected) => {
    expect(at(temperature, draw)).toBe(expected);
  });
});

describe('conditional disaggregation', () => {
  const of = (parameters: object, prompt: number, onD: number, d = view('d0')) =>
    chosen(dynamo(parameters), [view('p0')], [d], {
      promptTokenIds: tokens(prompt),
      cachedTokens: cached({ d0: onD }),
    });

  test.each([
    // D lacks 70 of 100: the ratio is 0.7, which is not below it.
    [100, 30, 'p0 d0'],
    [100, 31, 'd0'],
    [100, 0, 'p0 d0'],
    // 2048 and 2047 of 10,000
    [10_000, 7952, 'p0 d0'],
    [10_000, 7953, 'd0'],
    [0, 0, 'p0 d0'],
  ])('of %i tokens D has %i: %s', (prompt, onD, expected) => {
    expect(of({}, prompt, onD)).toBe(expected);
  });

  test('not where it is off, nor where D is busy: above the usage, not at it', () => {
    expect(of({ conditionalDisagg: null }, 100, 96)).toBe('p0 d0');
    const busy = (freeBlocks: number) => of({ decodeBusyUsage: 0.5 }, 100, 96, told('d0', { freeBlocks }));
    expect([busy(50), busy(49)]).toEqual(['d0', 'p0 d0']);
  });

  test('prefill_load: D takes over where P has more tokens than that waiting', () => {
    const policy = dynamo({ conditionalDisagg: 'prefill_load', prefillBusyTokens: 100 });
    const now = () => chosen(policy, [view('p0')], [view('d0')], { cachedTokens: cached({ d0: 96 }) });
    expect(now()).toBe('p0 d0');
    sent(policy, 'p0', 'd1', tokens(100));
    expect(now()).toBe('p0 d0');
    sent(policy, 'p0', 'd1', tokens(1));
    expect(now()).toBe('d0');
  });
});
