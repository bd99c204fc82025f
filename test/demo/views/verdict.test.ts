/** Which race the page shows: only one of the current conversation. */
import { expect, it } from 'vitest';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { canRace, isOfConversation } from '../../../demo/src/views/race/verdict.ts';
import { raceEvent, turn1, turn2 } from './fixture.ts';
import { fixtureState } from './fixture-state.ts';

const { race } = raceEvent as Extract<SessionEvent, { kind: 'race' }>;
const over = (conversation: string): SessionEvent => ({
  ...{ kind: 'conversation_ended', atMs: 9000 },
  conversation,
});
const shown = (events: readonly SessionEvent[]): boolean | null => {
  const state = fixtureState(events);
  return state.race.value && isOfConversation(state.race.value, state.beganMs.value);
};

it('a race run before the conversation began is not shown, but its numbers are kept', () => {
  expect(shown([...turn1, ...turn2, raceEvent])).toBe(true);
  expect(shown([...turn1, ...turn2, raceEvent, over('race-pull')])).toBe(true);
  expect(shown([...turn1, ...turn2, raceEvent, over('talk')])).toBe(false);
});

it('a race is shown even if one of its halves ran in the previous conversation', () => {
  const { pull, recompute } = race!;
  const both = { pull: { ...pull, startedMs: 100 }, recompute: { ...recompute, startedMs: 9500 } };
  expect(isOfConversation(both, 9000)).toBe(true);
});

it('a race that has just begun is shown, and one that failed at once goes with its conversation', () => {
  const begun = { ...race!.pull, startedMs: null };
  expect(isOfConversation({ pull: begun, recompute: begun }, 9000)).toBe(true);
  const failed = { ...race!, pull: begun, recompute: begun, error: 'D is gone' };
  const event: SessionEvent = { kind: 'race', atMs: 8000, race: failed };
  expect(shown([...turn1, event])).toBe(true);
  expect(shown([...turn1, event, over('talk')])).toBeNull();
});

it('a race can be run again without a turn, but the first one needs a conversation', () => {
  const able = (events: readonly SessionEvent[]): boolean => {
    const state = fixtureState(events);
    return canRace(state.race.value, state.turns.value);
  };
  expect([able([]), able([raceEvent]), able(turn1)]).toEqual([false, true, true]);
});
