/** A hold gives nothing to anyone but its reader, whatever their parameters say, and reveals nothing either. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { REFUSED } from '../../src/connector/nixl/hold-ends.ts';
import { HoldTable } from '../../src/connector/nixl/holds.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import { claimPrefix } from '../../src/transport/prefix-claim.ts';
import type { ReadClaim } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';
import { alone, request, tokens } from '../engine/fakes.ts';
import { pairsOf, range, turns } from '../transport/helpers.ts';
import {
  claimOf,
  claimTo,
  hold,
  LEASE_MS,
  lease,
  makeNodes,
  metadata,
  nextOutput,
  pull,
  ttl,
} from './nodes.ts';
import { PolicyCluster, type PolicyNode } from './policy-cluster.ts';

/** P holds blocks 1, 2 and 3 for D: 48 tokens. */
function holding(config = {}, kept: typeof lease | typeof ttl = lease) {
  const nodes = makeNodes({ config });
  hold(nodes.p, 'r@prefill', [1, 2, 3], kept(nodes.clock));
  return nodes;
}

const ALL = claimOf(48);
const others = claimPrefix(true)(range(1, 48), 48, null);

describe('a READ', () => {
  const right: ReadClaim = { held: ALL, prompt: ALL };
  const cases: Record<string, [requestId: string, blocks: number[], claim: ReadClaim]> = {
    'of an unknown id': ['guessed', [1, 2, 3], right],
    'without knowledge of the tokens': ['r@prefill', [1, 2, 3], { held: others, prompt: others }],
    'with knowledge of only some tokens': ['r@prefill', [1], { held: claimOf(16), prompt: claimOf(16) }],
    'for a prompt of other tokens': ['r@prefill', [1, 2, 3], { held: ALL, prompt: others }],
    'for a longer prompt': ['r@prefill', [1, 2, 3], { held: ALL, prompt: claimOf(49) }],
    'under a different cache_salt': [
      'r@prefill',
      [1, 2, 3],
      { held: claimOf(48, 'theirs'), prompt: claimOf(48, 'theirs') },
    ],
    'of blocks that are not held': ['r@prefill', [1, 2, 4], right],
    'of blocks that do not exist': ['r@prefill', [1, 2, 4000], right],
    'of blocks in another order': ['r@prefill', [3, 2, 1], right],
    'of the first blocks as if they were the last': ['r@prefill', [1, 2], right],
    'of more blocks than the prompt has': ['r@prefill', [1, 2, 3], { held: ALL, prompt: claimOf(32) }],
    'of a block too many': ['r@prefill', [1, 1, 2, 3], right],
  };
  for (const [what, [requestId, blocks, claim]] of Object.entries(cases)) {
    it(`${what} is refused, reads and frees nothing, and does not affect the hold's reader`, async () => {
      const { p, d } = holding();
      pull(d, p, 'foreign', pairsOf(blocks, range(7, blocks.length)), { requestId, claim });
      const { outcome, message } = (await nextOutput(d)).failedRecving[0]!;
      expect({ allow: false, outcome, message }).toEqual(REFUSED);
      await turns();
      expect(p.memory.gathers).toBe(0);
      expect(p.worker.holds.list()).toMatchObject([{ requestId: 'r@prefill', reading: false }]);
      pull(d, p, 'r', pairsOf([1, 2, 3], [7, 8, 9]));
      expect(await nextOutput(d)).toMatchObject({ finishedRecving: ['r'], failedRecving: [] });
      expect((await nextOutput(p)).finishedSending).toEqual(['r@prefill']);
    });
  }

  it('of a hold that was read completely is refused, even to its first reader', async () => {
    const { p, d } = holding();
    for (const id of ['r', 'second']) {
      pull(d, p, id, pairsOf([1, 2, 3], [7, 8, 9]), { requestId: 'r@prefill' });
      const { failedRecving } = await nextOutput(d);
      expect(failedRecving.map(({ message }) => message)).toEqual(id === 'r' ? [] : [REFUSED.message]);
    }
  });

  it('of a hold that expired or was dropped is explained only to its own reader', async () => {
    for (const [outcome, kept, end] of [
      ['expired', lease, (nodes: ReturnType<typeof holding>) => nodes.clock.advance(LEASE_MS)],
      ['declined', ttl, ({ p }: ReturnType<typeof holding>) => p.worker.holds.dropOldest('stuck')],
    ] as const) {
      const nodes = holding({}, kept);
      const { p, d } = nodes;
      end(nodes);
      for (const [claim, told] of [
        [right, outcome],
        [{ held: others, prompt: others }, 'refused'],
      ] as const) {
        pull(d, p, told, pairsOf([1, 2, 3], [7, 8, 9]), { requestId: 'r@prefill', claim });
        expect((await nextOutput(d)).failedRecving).toMatchObject([{ outcome: told }]);
      }
    }
  });

  it('of a sequence that is still being computed is refused with other tokens or another salt', async () => {
    const { p, d } = makeNodes();
    const computed = { blockIds: [[1, 2, 3]], numTokens: 48, tokenIds: range(0, 48), cacheSalt: null };
    for (const claim of [
      { held: others, prompt: others },
      { held: ALL, prompt: others },
      { held: others, prompt: ALL },
      { held: claimOf(48, 'theirs'), prompt: claimOf(48, 'theirs') },
    ]) {
      p.worker.startLoadKv(metadata({ computed: new Map([['r@prefill', computed]]) }));
      const remote = { ...p.address, requestId: 'r@prefill', claim, blocksExpiryTime: null };
      const pairs = pairsOf([0, 1, 2], [7, 8, 9]);
      const recv = { remote, pairs, numTokens: 48, streamed: true as const };
      d.worker.startLoadKv(metadata({ reqsToRecv: new Map([['foreign', recv]]) }));
      expect((await nextOutput(d)).failedRecving).toMatchObject([
        { outcome: 'refused', message: REFUSED.message },
      ]);
      expect(p.memory.gathers).toBe(0);
    }
  });

  it('with the token check off may have any tokens, but no other salt, block order or length', async () => {
    const numbersOnly = claimPrefix(false);
    const config = { tokenCheck: false };
    for (const [cacheSalt, blocks, numTokens, outcomes] of [
      [null, [1, 2, 3], 48, []],
      ['theirs', [1, 2, 3], 48, ['refused']],
      [null, [3, 2, 1], 48, ['refused']],
      [null, [1, 2, 3], 49, ['refused']],
    ] as const) {
      const { p, d } = holding(config);
      const claim = { held: numbersOnly([], 48, cacheSalt), prompt: numbersOnly([], numTokens, cacheSalt) };
      pull(d, p, 'r', pairsOf(blocks, [7, 8, 9]), { claim });
      expect((await nextOutput(d)).failedRecving.map(({ outcome }) => outcome)).toEqual(outcomes);
    }
  });
});

it('a READ that names blocks of a group that does not exist is refused', () => {
  const onEnd = () => {};
  const clock = new TestClock();
  const claim = claimPrefix(true);
  const rest = { onDeadline: onEnd, onDroppable: onEnd, streamStarves: () => false };
  const table = new HoldTable({
    clock,
    blockSize: 16,
    groups: FULL_GROUP,
    claim,
    leaseMs: 1,
    onEnd,
    ...rest,
  });
  table.process('r');
  const tokenIds = range(0, 16);
  table.hold('r', { blockIds: [[1]], tokenIds, cacheSalt: null, ...lease(clock) });
  const right = { held: claimOf(16), prompt: claimOf(16) };
  expect(table.gate('r', [[1]], right, 'd')).toMatchObject({ allow: true });
  expect(table.gate('r', [[1], [1]], right, 'd')).toEqual(REFUSED);
});

describe('a message', () => {
  it('without knowledge of the tokens ends no hold, present or future', async () => {
    const { p, d, clock } = holding();
    const foreign = { held: others, prompt: claimOf(0) };
    pull(d, p, 'foreign', [], { requestId: 'r@prefill', claim: foreign });
    p.worker.startLoadKv(metadata({ reqsInBatch: new Set(['later']) }));
    pull(d, p, 'early', [], { requestId: 'later', claim: foreign });
    await turns();
    hold(p, 'later', [4, 5, 6], lease(clock));
    expect(p.worker.holds.list().map(({ requestId }) => requestId)).toEqual(['r@prefill', 'later']);
    pull(d, p, 'r', [], { claim: { ...foreign, held: ALL } });
    expect((await nextOutput(p)).finishedSending).toEqual(['r@prefill']);
  });

  it('without knowledge of the tokens renews no lease', async () => {
    const { p, d, clock } = holding();
    const { deadline } = p.worker.holds.list()[0]!;
    clock.advance(LEASE_MS - 1);
    for (const [held, after] of [
      [others, deadline],
      [claimTo('r@prefill').held, clock.now() + (LEASE_MS * 2) / 3],
    ] as const) {
      const holds = [{ requestId: 'r@prefill', held }];
      d.worker.startLoadKv(metadata({ heartbeats: [{ remote: p.address, holds }] }));
      await turns();
      expect(p.worker.holds.list()).toMatchObject([{ deadline: after }]);
    }
  });
});

const PROMPT = tokens(40);
const OTHER = tokens(40, 9);

/** The stranger lacks the exact id, tokens or salt; everything else may be right or made up. */
const attack = fc
  .record({
    at: fc.constantFrom('p', 'd'),
    id: fc.constantFrom('right', 'right', 'cut', 'other'),
    told: fc.constantFrom('right', 'part', 'other', 'longer'),
    cacheSalt: fc.constantFrom('mine', 'mine', 'theirs', null),
    prompt: fc.constantFrom('right', 'right', 'part', 'other'),
    blocks: fc.constantFrom('right', 'right', 'reversed', 'shifted', 'others'),
    numTokens: fc.constantFrom('right', 'right', 'all'),
    expiry: fc.constantFrom('right', 'null', 'never'),
    pull: fc.constantFrom(null, 'always', 'never'),
    length: fc.integer({ min: 1, max: 60 }),
  })
  .filter(({ id, told, cacheSalt }) => id !== 'right' || told !== 'right' || cacheSalt !== 'mine');

type Attack = typeof attack extends fc.Arbitrary<infer T> ? T : never;

/** The owner's parameters, as forged by a stranger. */
function forged(owner: KvTransferParams, history: readonly number[], a: Attack) {
  const right = owner.remote_token_ids!;
  const ids = owner.remote_block_ids![0]!;
  const id = owner.remote_request_id!;
  const told = {
    right,
    part: right.slice(0, Math.min(a.length, right.length - 1)),
    other: [...OTHER, ...OTHER].slice(0, right.length),
    longer: [...right, 5],
  }[a.told];
  const prompt = { right: [...history, 3, 4], part: history.slice(0, a.length), other: [...OTHER, 3] };
  const blocks = {
    right: ids,
    reversed: ids.toReversed(),
    shifted: [...ids.slice(1), ids[0]!],
    others: ids.map((block) => block + 7),
  };
  const expiry = { right: owner.remote_blocks_expiry_time ?? null, null: null, never: 1e12 };
  const kvTransferParams: KvTransferParams = {
    ...owner,
    remote_request_id: { right: id, cut: id.slice(0, -1), other: 'victim#1.1-d' }[a.id],
    ...{ remote_token_ids: told, remote_block_ids: [blocks[a.blocks]] },
    remote_num_tokens: a.numTokens === 'all' ? 1000 : told.length,
    ...{ remote_blocks_expiry_time: expiry[a.expiry], pull_policy: a.pull },
    ...{ do_remote_decode: a.at === 'p', do_remote_prefill: a.at === 'd' },
  };
  return { prompt: prompt[a.prompt], more: { kvTransferParams, cacheSalt: a.cacheSalt } };
}

/** Runs a request to its end. */
async function ended(cluster: PolicyCluster, at: 'p' | 'd', entry: ReturnType<typeof request>) {
  const node = cluster[at];
  const stream = await node.submit(entry);
  await cluster.runUntil(() => node.endOf(stream.requestId) !== null, { idleMs: 0 });
  return node.finishOf(stream.requestId)!;
}

const heldBy = (node: PolicyNode) => node.holds.list().map(({ requestId }) => requestId);

/** Tokens not computed. A stranger who knows prompt and salt may have left some of them in the cache, where they are right. */
function accountedFor(node: PolicyNode, requestId: string): number {
  const { localHitTokens, pulledTokens } = node.promptOf(requestId)!;
  return localHitTokens + pulledTokens;
}

it.each(['fail', 'recompute'] as const)(
  "%s: strangers get a refusal or right tokens, and do not affect the owner's turn",
  async (loadFailurePolicy) => {
    const seen = { refused: 0, computed: 0 };
    const play = async (attacks: Attack[], threshold: number, prefixCaching: boolean) => {
      const sizes = { prefixCaching, numBlocks: 400 };
      const cluster = new PolicyCluster(sizes, sizes, { loadFailurePolicy, recomputeThreshold: threshold });
      const mine = { cacheSalt: 'mine' };
      let count = 0;
      const strike = async (owner: KvTransferParams, history: readonly number[]) => {
        for (const a of attacks) {
          const { prompt, more } = forged(owner, history, a);
          const id = `stranger${++count}`;
          const maxTokens = a.at === 'p' ? 1 : 4;
          const { reason, error, kvTransferParams } = await ended(
            ...([cluster, a.at, request(id, prompt, { maxTokens }, more)] as const),
          );
          if (reason === 'error') {
            seen.refused++;
            expect(error).toEqual({ code: 'refused', message: REFUSED.message });
            expect(loadFailurePolicy).toBe('fail');
          } else {
            seen.computed++;
            expect(cluster[a.at].tokensOf(id)).toEqual(await alone(prompt, { maxTokens }));
          }
          if (kvTransferParams) cluster[a.at].holds.release(kvTransferParams.remote_request_id!);
        }
      };
      const toP = { kvTransferParams: { do_remote_decode: true, do_remote_prefill: false }, ...mine };
      const first = await ended(cluster, 'p', request('t1-p', PROMPT, { maxTokens: 1 }, toP));
      await strike(first.kvTransferParams!, PROMPT);
      const toD = { kvTransferParams: first.kvTransferParams, ...mine };
      expect(heldBy(cluster.p)).toEqual(['t1-p']);
      const decoded = await ended(cluster, 'd', request('t1-d', PROMPT, { maxTokens: 10 }, toD));
      expect(heldBy(cluster.p)).toEqual([]);
      expect(accountedFor(cluster.d, 't1-d')).toBe(39);
      const answer = cluster.d.tokensOf('t1-d');
      expect(answer).toEqual(await alone(PROMPT, { maxTokens: 10 }));
      const history = [...PROMPT, ...answer];
      await strike(decoded.kvTransferParams!, history);
      expect(heldBy(cluster.d)).toEqual(['t1-d']);
      const back = { ...decoded.kvTransferParams!, do_remote_decode: true, pull_policy: 'always' as const };
      const prompt = [...history, 3, 4];
      await ended(
        cluster,
        'p',
        request('t2-p', prompt, { maxTokens: 1 }, { kvTransferParams: back, ...mine }),
      );
      expect(cluster.p.tokensOf('t2-p')).toEqual(await alone(prompt, { maxTokens: 1 }));
      expect(heldBy(cluster.d)).toEqual([]);
      expect(accountedFor(cluster.p, 't2-p')).toBe(49);
      await cluster.release();
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(attack, { minLength: 1, maxLength: 12 }),
        fc.constantFrom(0, 0, 8, 1000),
        fc.boolean(),
        play,
      ),
      { numRuns: 80, seed: 20261120 },
    );
    if (loadFailurePolicy === 'fail') expect(seen.refused).toBeGreaterThan(100);
    expect(seen.computed).toBeGreaterThan(100);
  },
);
