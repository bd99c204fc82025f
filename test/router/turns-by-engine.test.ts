import { expect, it } from 'vitest';
import { TurnsByEngine } from '../../src/router/turns-by-engine.ts';

it('counts turns at each of their engines until they leave, once each', () => {
  const turns = new TurnsByEngine();
  const counts = () => ['p0', 'd0', 'd1'].map((id) => turns.at(id));
  const leaves = [turns.enter(['p0', 'd0']), turns.enter(['p0', 'd1']), turns.enter(['p0', 'd0'])];
  expect(counts()).toEqual([3, 2, 1]);
  leaves[0]!();
  leaves[0]!();
  expect(counts()).toEqual([2, 1, 1]);
  leaves[1]!();
  expect(counts()).toEqual([1, 1, 0]);
  turns.add('d1');
  turns.remove('d1');
  leaves[2]!();
  expect(counts()).toEqual([0, 0, 0]);
});

it('never counts below zero', () => {
  const turns = new TurnsByEngine();
  turns.remove('d0');
  turns.add('d0');
  expect(turns.at('d0')).toBe(1);
});
