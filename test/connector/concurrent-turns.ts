/** Concurrent turns for a policy-only cluster: some are aborted by their clients, and some READs fail. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { alone, tokens } from '../engine/fakes.ts';
import type { PolicyCluster } from './policy-cluster.ts';

export interface TurnsAtOnce {
  /** How many of every four READs fail. */
  loses: number;
  /** `of`: the text whose first tokens are the prompt. `aborts`: if below 4, the turn is aborted after this many times 9 rounds. */
  turns: readonly { of: number; length: number; aborts: number }[];
  picks: Iterator<number>;
}

/** `most`: the most tokens of a prompt. */
export const turnsAtOnce = (most: number): fc.Arbitrary<TurnsAtOnce> =>
  fc.record({
    loses: fc.integer({ min: 0, max: 3 }),
    turns: fc.array(
      fc.record({
        of: fc.integer({ min: 0, max: 2 }),
        length: fc.integer({ min: 1, max: most }),
        aborts: fc.integer({ min: 0, max: 12 }),
      }),
      { minLength: 1, maxLength: 8 },
    ),
    picks: fc.infiniteStream(fc.nat(1000)),
  });

/** Serves the turns. Those not aborted must give the tokens of one engine alone. Returns the function that picks the next move. */
export async function serveAtOnce(
  cluster: PolicyCluster,
  sampling: { maxTokens: number },
  { loses, turns, picks }: TurnsAtOnce,
): Promise<(count: number) => number> {
  let reads = 0;
  cluster.net.failsNext = () => loses > 0 && reads++ % 4 < loses;
  const pick = (count: number): number => picks.next().value! % count;
  const results = turns.map(({ of, length, aborts }, i) => {
    const prompt = tokens(length, of);
    const ending = new AbortController();
    const turn = cluster.turn(`t${i}`, prompt, sampling, null, ending.signal);
    return { prompt, aborts, ending, turn: turn.catch(() => null), rounds: 0 };
  });
  let open = results.length;
  for (const { turn } of results) void turn.then(() => open--);
  await cluster.runUntil(
    () => {
      for (const one of results) if (one.aborts < 4 && one.rounds++ === one.aborts * 9) one.ending.abort();
      return open === 0;
    },
    { pick },
  );
  for (const { prompt, turn, ending } of results) {
    const result = await turn;
    if (result && !ending.signal.aborted && result.end.finish?.reason === 'length')
      expect(result.output).toEqual(await alone(prompt, sampling));
  }
  return pick;
}
