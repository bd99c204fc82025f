import { describe, expect, test } from 'vitest';
import { outcomeOf, within } from '../../src/measure/outcome.ts';

describe('outcomeOf', () => {
  test.each([
    [1.006, 'ahead'],
    [1.0049, 'tie'],
    [1, 'tie'],
    [0.9951, 'tie'],
    [0.99, 'behind'],
    [2.5, 'ahead'],
  ])('gives for a ratio of %d: %s', (ratio, outcome) => {
    expect(outcomeOf({ ratio })).toBe(outcome);
    const mirrored = { ahead: 'behind', behind: 'ahead', tie: 'tie' }[outcome];
    expect(outcomeOf({ ratio: 1 / ratio })).toBe(mirrored);
  });

  test('gives a tie if the interval contains 1, however far off the ratio is', () => {
    expect(outcomeOf({ ratio: 1.4, low: 0.98, high: 1.9 })).toBe('tie');
    expect(outcomeOf({ ratio: 0.7, low: 0.5, high: 1 })).toBe('tie');
    expect(outcomeOf({ ratio: 1.4, low: 1.1, high: 1.9 })).toBe('ahead');
    expect(outcomeOf({ ratio: 0.7, low: 0.5, high: 0.9 })).toBe('behind');
    expect(outcomeOf({ ratio: 1.004, low: 1.001, high: 1.007 })).toBe('tie');
  });

  test('gives a tie if the interval is unknown', () => {
    expect(outcomeOf({ ratio: 1.7, low: null, high: null })).toBe('tie');
  });

  test('gives a tie if the ratio is within the error of one measurement, either way', () => {
    expect(outcomeOf(within(1.029, 0.03))).toBe('tie');
    expect(outcomeOf(within(1 / 1.029, 0.03))).toBe('tie');
    expect(outcomeOf(within(1.04, 0.03))).toBe('ahead');
    expect(outcomeOf(within(1 / 1.04, 0.03))).toBe('behind');
  });
});
