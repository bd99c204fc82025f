import { signal } from '@preact/signals';
import { expect, it } from 'vitest';
import type { SessionState } from '../../../demo/src/session/types.ts';
import type { Palette } from '../../../demo/src/views/palette.ts';
import type { Bar, Fit } from '../../../demo/src/views/timeline/timeline-model.ts';
import { TimelinePicture } from '../../../demo/src/views/timeline/timeline-picture.ts';
import { turn1, turn2 } from './fixture.ts';
import { feed, fixtureState } from './fixture-state.ts';

const anything = <T>(): T =>
  new Proxy({} as object, {
    get: (_, name) => (name === 'measureText' ? () => ({ width: 10 }) : () => {}),
    set: () => true,
  }) as T;
const NAMES = ['surface', 'ink', 'ink2', 'ink3', 'line', 'p', 'd', 'pull', 'over', 'store', 'onAccent'];
const palette = { ...Object.fromEntries(NAMES.map((name) => [name, '#2f6fd6'])), least: 0 } as Palette;

/** Draws the timeline and returns the time range in view. */
function shownOf(state: SessionState) {
  const picture = new TimelinePicture(state, signal<Fit | null>('first token'), signal<Bar | null>(null));
  const context = anything<CanvasRenderingContext2D>();
  picture.draw({ context, width: 800, height: 200, palette, elapsedMs: 0 });
  return picture.domain;
}

it('the timeline shows the last turn, and nothing of an ended conversation', () => {
  const state = fixtureState([...turn1, ...turn2]);
  const { startMs } = state.turns.value.at(-1)!;
  expect(shownOf(state).startMs).toBeLessThan(startMs);
  expect(shownOf(state).endMs).toBeGreaterThan(startMs);
  const { conversation } = state.turns.value[0]!;
  feed(state, [{ kind: 'conversation_ended', atMs: 1e6, conversation }]);
  expect(shownOf(state)).toEqual({ startMs: 0, endMs: 1000 });
});
