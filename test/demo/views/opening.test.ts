import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Session } from '../../../demo/src/session/types.ts';
import { watchOpening } from '../../../demo/src/views/opening.ts';
import { turn1, turn2 } from './fixture.ts';
import { fixtureState } from './fixture-state.ts';

let heard: EventTarget;

beforeEach(() => {
  vi.useFakeTimers();
  heard = new EventTarget();
  vi.stubGlobal('location', { hash: '' });
  vi.stubGlobal('addEventListener', heard.addEventListener.bind(heard));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The page after its first turns were played; counts the races that it begins. */
function opened() {
  const state = fixtureState([...turn1, ...turn2]);
  state.settings.value = { ...state.settings.value, turns: 2 };
  state.status.value = { phase: 'ready', message: 'Ready', progress: null };
  const runRace = vi.fn(async () => {});
  watchOpening({ state, actions: { runRace } } as unknown as Session);
  return { state, runRace };
}

it('after the first turns the page begins one race', () => {
  const { state, runRace } = opened();
  vi.advanceTimersByTime(10_000);
  state.status.value = { ...state.status.value, message: 'Ready again' };
  vi.advanceTimersByTime(10_000);
  expect(runRace).toHaveBeenCalledTimes(1);
});

it.each(['click', 'keydown', 'input', 'hashchange'])('a user’s %s keeps the page from racing', (kind) => {
  const { state, runRace } = opened();
  vi.advanceTimersByTime(2000);
  heard.dispatchEvent(new Event(kind));
  state.settings.value = { ...state.settings.value, threshold: 7 };
  vi.advanceTimersByTime(10_000);
  expect(runRace).not.toHaveBeenCalled();
});
