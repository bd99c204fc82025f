/** Builds a session's state from events, as the page does. */
import { applyEvent, createState, type WritableState } from '../../../demo/src/session/state.ts';
import type { SessionEvent } from '../../../demo/src/session/types.ts';

export function fixtureState(events: readonly SessionEvent[]): WritableState {
  const clock = { nowMs: 0 };
  const state = createState(() => clock.nowMs);
  feed(state, events, clock);
  return state;
}

export function feed(
  state: WritableState,
  events: readonly SessionEvent[],
  clock: { nowMs: number } = { nowMs: 0 },
): void {
  for (const event of events) {
    clock.nowMs = event.atMs;
    applyEvent(state, event);
  }
}
