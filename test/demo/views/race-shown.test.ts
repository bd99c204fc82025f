/** Which race the page shows: one of the conversation that is there. */
import { expect, it } from 'vitest';
import type { SessionEvent } from '../../../demo/src/session/types.ts';
import { canRace, isOfConversation } from '../../../demo/src/views/verdict.ts';
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

it('is none that was run before the conversation began, though its numbers are kept', () => {
  expect(shown([...turn1, ...turn2, raceEvent])).toBe(true);
  expect(shown([...turn1, ...turn2, raceEvent, over('race-pull')])).toBe(true);
  expect(shown([...turn1, ...turn2, raceEvent, over('talk')])).toBe(false);
});

it('may have begun in the conversation before, where two were recorded one after the other', () => {
  const { pull, recompute } = race!;
  const both = { pull: { ...pull, startedMs: 100 }, recompute: { ...recompute, startedMs: 9500 } };
  expect(isOfConversation(both, 9000)).toBe(true);
});

it('is one that was just begun; one that failed at once is forgotten with its conversation', () => {
  const begun = { ...race!.pull, startedMs: null };
  expect(isOfConversation({ pull: begun, recompute: begun }, 9000)).toBe(true);
  const failed = { ...race!, pull: begun, recompute: begun, error: 'D is gone' };
  const event: SessionEvent = { kind: 'race', atMs: 8000, race: failed };
  expect(shown([...turn1, event])).toBe(true);
  expect(shown([...turn1, event, over('talk')])).toBeNull();
});

it('can be run again though nothing was asked, as a lesson begins; the first one needs a conversation', () => {
  const able = (events: readonly SessionEvent[]): boolean => {
    const state = fixtureState(events);
    return canRace(state.race.value, state.turns.value);
  };
  expect([able([]), able([raceEvent]), able(turn1)]).toEqual([false, true, true]);
});
