import { expect, it } from 'vitest';
import type { Mode, TurnView } from '../../../demo/src/session/types.ts';
import { areOfReplay, type ShownAt, shownCopies } from '../../../demo/src/views/stage/shown-copies.ts';

const turn = (turnId: string, startMs: number, mode: Mode = 'bidirectional') =>
  ({ turnId, conversation: turnId.split('#')[0], startMs, mode }) as TurnView;
const copy = (requestId: string, startMs: number) => ({ requestId, startMs });
const turns = [turn('chat-1#1.1', 0), turn('chat-1#2.2', 100)];
const first = copy('chat-1#1.1-d-0', 10);
const pull = copy('chat-1#2.2-p-0', 110);
const over = copy('chat-1#2.2-d-0', 120);
const raced = copy('race-pull#2.9-p-0', 210);
const shown = (all: readonly ReturnType<typeof copy>[], at: Partial<ShownAt> = {}) =>
  shownCopies(all, { turns, mode: 'bidirectional', idle: true, ...at });

it('shown copies are those of the last turn only', () => {
  expect(shown([first, pull, over])).toEqual([pull, over]);
  expect(shown([first], { idle: false })).toEqual([]);
});

it('shown copies are those of a measurement only while it runs', () => {
  expect(shown([first, pull, over, raced], { idle: false })).toEqual([raced]);
  expect(shown([first, pull, over, raced])).toEqual([pull, over]);
});

it('shown copies are those of the replayed last turn after engines were emptied', () => {
  const again = copy('chat-1#2.10-d-0', 300);
  expect(shown([pull, over, raced, again])).toEqual([again]);
  expect(areOfReplay([again], turns)).toBe(true);
  expect(areOfReplay([pull, over], turns)).toBe(false);
  expect(areOfReplay([], turns)).toBe(false);
});

it('no copies of an earlier mode are shown', () => {
  expect(shown([pull, over], { mode: 'monolithic' })).toEqual([]);
  expect(shown([pull, over], { mode: null })).toEqual([pull, over]);
});

it('no copies are shown without a turn', () => {
  expect(shown([pull, over, raced], { turns: [] })).toEqual([]);
});

it('shown copies include those of two concurrent conversations', () => {
  const other = copy('chat-2#1.3-d-0', 130);
  expect(shown([pull, over, other], { turns: [...turns, turn('chat-2#1.3', 125)] })).toEqual([
    pull,
    over,
    other,
  ]);
});
