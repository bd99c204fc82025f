import { expect, it } from 'vitest';
import type { RecordedTurn, SessionEvent } from '../../src/recording/events.ts';
import { RecordedRace } from '../../src/recording/recorded-race.ts';

/** Each turn in both modes, alternating. */
function racesOf(turns: number): SessionEvent[] {
  const told: SessionEvent[] = [];
  const race = new RecordedRace((event) => told.push(event));
  let atMs = 0;
  for (let turn = 1; turn <= turns; turn++) {
    for (const mode of ['unidirectional', 'bidirectional'] as const) {
      const turnId = `${mode} ${turn}`;
      const started = { turnId, conversation: 'a', turn, mode, question: 'q', edited: false };
      race.hear({ kind: 'turn_started', atMs: ++atMs, ...started });
      const result = { turn, pulled_tokens: turn, ttft_ms: atMs, transfer: { d_to_p: { bytes: 1 } } };
      race.hear({ kind: 'turn_ended', atMs: ++atMs, turnId, result: result as unknown as RecordedTurn });
    }
  }
  race.end(++atMs);
  return told;
}

const pointsOf = (events: readonly SessionEvent[]): number[] =>
  events.flatMap((event) => (event.kind === 'crossover' ? [event.crossover!.points.length] : []));

it('the crossover is emitted after each of a few turns, less often for many, and in full at the end', () => {
  expect(pointsOf(racesOf(5))).toEqual([1, 2, 3, 4, 5]);
  const total = (turns: number) => pointsOf(racesOf(turns)).reduce((sum, points) => sum + points, 0);
  expect(total(400) / total(200)).toBeLessThan(2.2);
  expect(pointsOf(racesOf(399)).at(-1)).toBe(399);
  expect(racesOf(399).filter(({ kind }) => kind === 'race')).toHaveLength(399);
});
