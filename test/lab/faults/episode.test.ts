/** Negative controls: each check of `verify --faults` reports its defect on a cluster with only that defect. */
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

/** Yields these tokens at once, then ends, hangs or fails. */
async function* answer(tokenIds: readonly number[], error: Error | 'hangs' | null = null) {
  for (const tokenId of tokenIds) yield { tokenId, logitsDigest: 'd' } as GeneratedToken;
  if (error === 'hangs') await never;
  else if (error) throw error;
}

/** Runs an episode on a healthy cluster, except for `wrong`; `kinds` are the kinds of its findings. */
async function found(wrong: Partial<StormyCluster>, storm = {}, picks: readonly number[] | null = null) {
  const clock = new TestClock();
  const engines = [
    {
      engineId: 'd',
      role: 'decode' as const,
      started: { memory: { gpu: 900, shared: 10 }, blockBytes: 100 },
    },
  ];
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

it('an episode reports nothing for right answers or for typed errors after right tokens', async () => {
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
  ['a wrong token', 'wrong tokens', { generate: () => answer([3, 2, 4]) }],
  ['an extra token', 'wrong tokens', { generate: () => answer([...ANSWER, 1]) }],
  ['an answer that stops early', 'wrong tokens', { generate: () => answer([3, 1]) }],
  [
    'a wrong token before an error',
    'wrong tokens',
    { generate: () => answer([9], new TransferError('gone')) },
  ],
  ['an internal error', 'untyped error', { generate: () => answer([3], new InternalError('a bug')) }],
  ['an error without a code', 'untyped error', { generate: () => answer([], new TypeError('undefined')) }],
  ['a caller that hangs', 'caller hangs', { generate: () => answer([3], 'hangs') }],
  ['a configure() that hangs', 'caller hangs', { configure: () => never }],
  ['a stats() that hangs', 'caller hangs', { stats: () => never }],
  [
    'a configure() that fails',
    'cannot go on',
    { configure: async () => Promise.reject(new TypeError('undefined')) },
  ],
  ['a leaked block', 'blocks held', { stats: stats({ usedBlocks: 1 }) }],
  ['an orphaned hold', 'blocks held', { stats: stats({ heldRequests: 1 }) }],
  ['an orphaned request', 'request parked', { stats: stats({ waitingForRemote: 1 }) }],
  [
    'a failed integrity check',
    'books wrong',
    { checkIntegrity: async () => Promise.reject(new Error('7 of 8')) },
  ],
  ['growing device memory', 'memory grew', { stats: stats({ memory: { ...memory, gpu: 1001 } }) }],
  ['growing shared memory', 'memory grew', { stats: stats({ memory: { ...memory, shared: 11 } }) }],
];

it.each(controls)('an episode reports %s as "%s"', async (_, kind, wrong) => {
  expect((await found(wrong)).kinds).toContain(kind);
});

it('an episode injects only the picked faults of its schedule, in order', async () => {
  const begun: Fault[][] = [];
  const storm = { begin: (schedule: Fault[]) => void begun.push(schedule) };
  for (const picks of [null, [2, 4], [3]]) await found({}, storm, picks);
  const [all, some, one] = begun;
  expect(all).toHaveLength(4);
  expect([some, one]).toEqual([[all![1], all![3]], [all![2]]]);
});

describe('fewest()', () => {
  const of = async (needed: readonly number[]) => {
    const tried: string[] = [];
    const picks = await fewest([1, 2, 3, 4], async (some) => {
      tried.push(some.join(''));
      return needed.every((one) => some.includes(one));
    });
    return { picks, tried };
  };

  it('drops faults one at a time and tries no other combinations', async () => {
    expect(await of([2, 4])).toEqual({ picks: [2, 4], tried: ['234', '34', '24', '2'] });
    expect((await of([1, 2, 3, 4])).picks).toEqual([1, 2, 3, 4]);
  });

  it('keeps one fault if the run fails with any', async () => {
    expect((await of([])).picks).toEqual([4]);
  });
});

it('an episode reports "caller hangs" if ended engines are never replaced', async () => {
  expect((await found({}, { calm: () => never })).kinds).toContain('caller hangs');
});

it('an episode does not report a block that is freed a moment later', async () => {
  let looks = 0;
  const soon = () => stats({ usedBlocks: looks++ < 20 ? 1 : 0 })();
  expect((await found({ stats: soon })).kinds).toEqual([]);
});
