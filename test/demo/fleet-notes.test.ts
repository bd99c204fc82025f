/** The notes of the fleet view. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Notes } from '../../demo/src/fleet/notes.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const told = (notes: Notes) => notes.said.value.map(({ message }) => message);

it('a note stays for its reading time, counted from when it was last repeated', () => {
  const notes = new Notes();
  notes.say('rate is to be 999');
  const [first] = notes.said.value;
  vi.advanceTimersByTime(10_000);
  notes.say('rate is to be 999');
  // It gets a new id, so that the view redraws it: the first one was fading.
  expect(notes.said.value).toHaveLength(1);
  expect(notes.said.value[0]!.id).not.toBe(first!.id);
  vi.advanceTimersByTime(10_000);
  expect(told(notes)).toEqual(['rate is to be 999']);
  vi.advanceTimersByTime(2000);
  expect(told(notes)).toEqual([]);
});

it('a long note stays longer, and only the last three notes are shown', () => {
  const notes = new Notes();
  const long = 'word '.repeat(60);
  notes.say(long);
  for (const message of ['a', 'b']) notes.say(message);
  vi.advanceTimersByTime(13_000);
  expect(told(notes)).toEqual([long]);
  for (const message of ['c', 'd', 'e']) notes.say(message);
  expect(told(notes)).toEqual(['c', 'd', 'e']);
});
