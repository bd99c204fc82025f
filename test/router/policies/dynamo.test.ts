import { describe, expect, test } from 'vitest';
import { policyOf, view } from '../policies.ts';
import { chosen, ended, prefilled, scoresOf, sent, tokens, told } from './fleet.ts';

const dynamo = (parameters: object = {}, draws?: number[]) => policyOf('dynamo', parameters, draws);
const [TWO_P, TWO_D] = [
  [view('p0'), view('p1')],
  [view('d0'), view('d1')],
];
const cached = (by: Record<string, number>) => (engineId: string) => by[engineId] ?? 0;

describe('the cost of an engine', () => {
  test('is the number of blocks of the prompt, in whole blocks for D', () => {
    expect(scoresOf(dynamo(), [view('p0')], [view('d0')])).toEqual({ p0: 6.25, d0: 7 });
    expect(scoresOf(dynamo(), [view('p0')], [view('d0')], { promptTokenIds: [] })).toEqual({ p0: 0, d0: 0 });
  });

  test('is reduced by whole cached blocks for P, and for D only if it may prefill', () => {
    const cachedTokens = cached({ p1: 47, d1: 95 });
    const scores = (parameters: object) => scoresOf(dynamo(parameters), TWO_P, TWO_D, { cachedTokens });
    expect(scores({ conditionalDisagg: null })).toEqual({ p0: 6.25, p1: 4.25, d0: 7, d1: 7 });
    expect(scores({})).toEqual({ p0: 6.25, p1: 4.25, d0: 7, d1: 2 });
    expect(scores({ overlapCredit: 0 })).toEqual({ p0: 6.25, p1: 6.25, d0: 7, d1: 7 });
  });

  test('includes other turns at P until they are prefilled, and at D until they have ended', () => {
    const policy = dynamo();
    const number = sent(policy, 'p0', 'd0', tokens(160));
    expect(scoresOf(policy, TWO_P, TWO_D)).toEqual({ p0: 16.25, p1: 6.25, d0: 17, d1: 7 });
    policy.observe?.(prefilled(number, 'p0'));
    expect(scoresOf(policy, TWO_P, TWO_D)).toEqual({ p0: 6.25, p1: 6.25, d0: 17, d1: 7 });
    policy.observe?.(ended(number));
    expect(scoresOf(policy, TWO_P, TWO_D)).toEqual({ p0: 6.25, p1: 6.25, d0: 7, d1: 7 });
  });

  test('does not include blocks of other turns that P has cached', () => {
    const policy = dynamo();
    sent(policy, 'p0', 'd0', tokens(160), { cachedTokens: cached({ p0: 128 }) });
    expect(scoresOf(policy, TWO_P, TWO_D)).toMatchObject({ p0: 8.25, p1: 6.25 });
  });

  test('is never negative', () => {
    const cachedTokens = cached({ p0: 96, d0: 96 });
    expect(scoresOf(dynamo({ overlapCredit: 4 }), TWO_P, TWO_D, { cachedTokens })).toMatchObject({
      p0: 0,
      d0: 0,
    });
  });

  test('is scaled for P by prefillLoadScale', () => {
    expect(scoresOf(dynamo({ prefillLoadScale: 0.5 }), TWO_P, TWO_D).p0).toBe(3.125);
  });
});

describe('temperature', () => {
  // Costs 6.25 and 3.25 are scaled to 1 and 0: weights exp(-1/0.5) = 0.135 and 1; the first has 0.119 of the total.
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
  ])('%f with a draw of %f chooses %s', (temperature, draw, expected) => {
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
  ])('of a prompt of %i tokens, %i of them on D, chooses %s', (prompt, onD, expected) => {
    expect(of({}, prompt, onD)).toBe(expected);
  });

  test('is skipped if it is off, or if D’s KV usage is above decodeBusyUsage', () => {
    expect(of({ conditionalDisagg: null }, 100, 96)).toBe('p0 d0');
    const busy = (freeBlocks: number) => of({ decodeBusyUsage: 0.5 }, 100, 96, told('d0', { freeBlocks }));
    expect([busy(50), busy(49)]).toEqual(['d0', 'p0 d0']);
  });

  test('with prefill_load lets D serve alone if more than prefillBusyTokens wait at P', () => {
    const policy = dynamo({ conditionalDisagg: 'prefill_load', prefillBusyTokens: 100 });
    const now = () => chosen(policy, [view('p0')], [view('d0')], { cachedTokens: cached({ d0: 96 }) });
    expect(now()).toBe('p0 d0');
    sent(policy, 'p0', 'd1', tokens(100));
    expect(now()).toBe('p0 d0');
    sent(policy, 'p0', 'd1', tokens(1));
    expect(now()).toBe('d0');
  });
});
