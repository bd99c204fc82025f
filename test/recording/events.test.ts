/** The recording shipped with the page can be read by this version. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { RECORDING_VERSION, recordingSchema } from '../../src/recording/events.ts';

const shipped = path.join(import.meta.dirname, '../../demo/recordings/shipped.json');

const note = { kind: 'note', atMs: 0, level: 'info', message: 'x' };

test('the shipped recording has the kinds of event that a page draws', () => {
  const { events } = recordingSchema.parse(JSON.parse(readFileSync(shipped, 'utf8')));
  const kinds = new Set<string>(events.map(({ kind }) => kind));
  for (const kind of [
    'settings',
    'machine',
    'blocks',
    'spans',
    'transfer_ended',
    'slab',
    'race',
    'crossover',
  ]) {
    expect(kinds).toContain(kind);
  }
  const ended = events.filter((event) => event.kind === 'turn_ended');
  expect(ended.some(({ result }) => result.pulled_tokens > 0)).toBe(true);
});

test('known events are read, and unknown kinds of event are refused', () => {
  const recording = { kvferryRecording: RECORDING_VERSION, madeWith: 'test', title: 'x', events: [note] };
  expect(recordingSchema.parse(recording).events).toEqual([note]);
  expect(() => recordingSchema.parse({ ...recording, events: [{ ...note, kind: 'rumour' }] })).toThrow();
});

test('a recording of another version is refused with both versions named', () => {
  const recording = { kvferryRecording: 1, madeWith: 'test', title: 'x', events: [note] };
  expect(() => recordingSchema.parse(recording)).toThrow(`found version 1, wanted ${RECORDING_VERSION}`);
});
