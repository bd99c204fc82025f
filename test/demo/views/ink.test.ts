import { expect, it } from 'vitest';
import { betterInk } from '../../../demo/src/views/ink.ts';

const [white, black, blue] = ['#ffffff', '#1b1d20', '#2f6fd6'];

it('betterInk is light on a strong colour and dark on a pale one, given the colour underneath', () => {
  const on = (opacity: number, ground: string) => betterInk([black, white], blue, opacity, ground);
  expect(on(1, white)).toBe(white);
  expect(on(0.5, white)).toBe(black);
  expect(on(0.5, black)).toBe(white);
  // Orange is lighter than it looks: white on it has a contrast of 3.3, black of 5.2.
  expect(betterInk([black, white], '#e0651a', 1, white)).toBe(black);
});
