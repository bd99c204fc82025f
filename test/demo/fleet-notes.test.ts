/** What is said of a fleet by the way. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Notes } from '../../demo/src/fleet/notes.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const told = (notes: Notes) => notes.said.value.map(({ message }) => message);

it('stays as long as it takes to be read, from when it was said last', () => {
  const notes = new Notes();
  notes.say('rate is to be 999');
  const [first] = notes.said.value;
  vi.advanceTimersByTime(10_000);
  notes.say('rate is to be 999');
  // Another, for whoever draws it: the first one was fading.
  expect(notes.said.value).toHaveLength(1);
  expect(notes.said.value[0]!.id).not.toBe(first!.id);
  vi.advanceTimersByTime(10_000);
  expect(told(notes)).toEqual(['rate is to be 999']);
  vi.advanceTimersByTime(2000);
  expect(told(notes)).toEqual([]);
});

it('a long one stays longer; of more than three the last are told', () => {
  const notes = new Notes();
  const long = 'word '.repeat(60);
  notes.say(long);
  for (const message of ['a', 'b']) notes.say(message);
  vi.advanceTimersByTime(13_000);
  expect(told(notes)).toEqual([long]);
  for (const message of ['c', 'd', 'e']) notes.say(message);
  expect(told(notes)).toEqual(['c', 'd', 'e']);
});
