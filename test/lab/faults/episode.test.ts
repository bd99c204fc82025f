/** Negative controls: each check of `verify --faults` sees what it is for, on a cluster that does just that wrong. */
import { describe, expect, it } from 'vitest';
import { InternalError, TransferError } from '../../../src/errors.ts';
import type { Fault } from '../../../src/faults/schedule.ts';
import type { EngineStats } from '../../../src/host/engine-report.ts';
import { type EpisodeDeps, runEpisode, type StormyCluster } from '../../../src/lab/faults/episode.ts';
import { fewest } from '../../../src/lab/faults/shrink.ts';
import type { GeneratedToken } from '../../../src/router/turn-types.ts';
import { TestClock } from '../../clock.ts';
import { withSkippedTime } from '../../transport/helpers.ts';

const ANSWER = [3, 1, 4];
const turn = {
  promptTokenIds: [7, 8],
  sampling: { maxTokens: 3, temperature: 0, seed: 0, ignoreEos: true as const },
  answer: ANSWER.map((tokenId) => `${tokenId}:d`),
};

const never = new Promise<never>(() => {});
const calm = { running: 0, waiting: 0, waitingForRemote: 0, heldRequests: 0, usedBlocks: 0 };
const memory = { gpu: 1000, shared: 10 };

/** Given at once; then it hangs, or fails. */
async function* answer(tokenIds: readonly number[], error: Error | 'hangs' | null = null) {
  for (const tokenId of tokenIds) yield { tokenId, logitsDigest: 'd' } as GeneratedToken;
  if (error === 'hangs') await never;
  else if (error) throw error;
}

/** What an episode finds, by kind, in a cluster that is well but for what is given. */
async function found(wrong: Partial<StormyCluster>, storm = {}, picks: readonly number[] | null = null) {
  const clock = new TestClock();
  const engines = [{ engineId: 'd', started: { memory: { gpu: 900, shared: 10 }, blockBytes: 100 } }];
  const cluster = {
    engines,
    settings: { blockSize: 16, prefill: { numBlocks: 96 }, decode: { numBlocks: 96 } },
    configure: async () => {},
    generate: () => answer(ANSWER),
    endConversation: async () => {},
    stats: async () => [{ engineId: 'd', ...calm, memory }],
    checkIntegrity: async () => {},
    ...wrong,
  } as unknown as StormyCluster;
  const deps: EpisodeDeps = {
    cluster,
    storm: { begin: () => {}, calm: async () => {}, setClocksRight: async () => {}, ...storm },
    scripts: [[turn, turn]],
    clock,
    kinds: ['slow'],
    picks,
    patienceMs: 1000,
    drainMs: 500,
    signal: new AbortController().signal,
  };
  const result = await withSkippedTime(clock, runEpisode(1, deps));
  return { ...result, kinds: [...new Set(result.found.map(({ kind }) => kind))] };
}

const stats = (changes: Partial<EngineStats>) => async () =>
  [{ engineId: 'd', ...calm, memory, ...changes }] as unknown as EngineStats[];

it('what is well is found well: right answers, and errors of a known kind after right tokens', async () => {
  const well = await found({});
  expect(well).toMatchObject({ kinds: [], turns: { error: 0, left: 0 } });
  expect(well.turns.right).toBeGreaterThan(2);
  const failing = await found({ generate: () => answer([3, 1], new TransferError('it did not arrive')) });
  expect(failing).toMatchObject({
    kinds: [],
    turns: { right: 0 },
    errors: { transfer: failing.turns.error },
  });
});

const controls: [what: string, kind: string, wrong: Partial<StormyCluster>][] = [
  ['another token', 'wrong tokens', { generate: () => answer([3, 2, 4]) }],
  ['a token too many', 'wrong tokens', { generate: () => answer([...ANSWER, 1]) }],
  ['an answer that just stops', 'wrong tokens', { generate: () => answer([3, 1]) }],
  [
    'another token before an error',
    'wrong tokens',
    { generate: () => answer([9], new TransferError('gone')) },
  ],
  ['an error of our own', 'untyped error', { generate: () => answer([3], new InternalError('a bug')) }],
  ['an error of no kind', 'untyped error', { generate: () => answer([], new TypeError('undefined')) }],
  ['a caller that hangs', 'caller hangs', { generate: () => answer([3], 'hangs') }],
  ['settings that hang', 'caller hangs', { configure: () => never }],
  ['an engine that cannot be asked', 'caller hangs', { stats: () => never }],
  [
    'settings that fail',
    'cannot go on',
    { configure: async () => Promise.reject(new TypeError('undefined')) },
  ],
  ['a leaked block', 'blocks held', { stats: stats({ usedBlocks: 1 }) }],
  ['a hold for nobody', 'blocks held', { stats: stats({ heldRequests: 1 }) }],
  ['a request that nobody asked for', 'request parked', { stats: stats({ waitingForRemote: 1 }) }],
  [
    'books that do not add up',
    'books wrong',
    { checkIntegrity: async () => Promise.reject(new Error('7 of 8')) },
  ],
  ['more of the device', 'memory grew', { stats: stats({ memory: { ...memory, gpu: 1001 } }) }],
  ['more that is shared', 'memory grew', { stats: stats({ memory: { ...memory, shared: 11 } }) }],
];

it.each(controls)('%s is seen: %s', async (_, kind, wrong) => {
  expect((await found(wrong)).kinds).toContain(kind);
});

it('of its schedule only the picked faults happen, in their order', async () => {
  const begun: Fault[][] = [];
  const storm = { begin: (schedule: Fault[]) => void begun.push(schedule) };
  for (const picks of [null, [2, 4], [3]]) await found({}, storm, picks);
  const [all, some, one] = begun;
  expect(all).toHaveLength(4);
  expect([some, one]).toEqual([[all![1], all![3]], [all![2]]]);
});

describe('the fewest that break', () => {
  const of = async (needed: readonly number[]) => {
    const tried: string[] = [];
    const picks = await fewest([1, 2, 3, 4], async (some) => {
      tried.push(some.join(''));
      return needed.every((one) => some.includes(one));
    });
    return { picks, tried };
  };

  it('are found by leaving out one after the other, and no more is tried than that', async () => {
    expect(await of([2, 4])).toEqual({ picks: [2, 4], tried: ['234', '34', '24', '2'] });
    expect((await of([1, 2, 3, 4])).picks).toEqual([1, 2, 3, 4]);
  });

  it('are at least one, where it breaks whatever happens', async () => {
    expect((await of([])).picks).toEqual([4]);
  });
});

it('engines that are not replaced are seen', async () => {
  expect((await found({}, { calm: () => never })).kinds).toContain('caller hangs');
});

it('what is free a moment later is not found', async () => {
  let looks = 0;
  const soon = () => stats({ usedBlocks: looks++ < 20 ? 1 : 0 })();
  expect((await found({ stats: soon })).kinds).toEqual([]);
});
