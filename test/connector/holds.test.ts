/** The hold table alone: who may read which blocks, how holds end, and what is remembered of their ends. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { HoldEnds, REFUSED, REMEMBERED_ENDS } from '../../src/connector/nixl/hold-ends.ts';
import { HoldTable, type HoldTableDeps } from '../../src/connector/nixl/holds.ts';
import type { SendRequest } from '../../src/connector/nixl/metadata.ts';
import { tokenContext } from '../../src/connector/policy/cost-model.ts';
import { claimPrefix } from '../../src/transport/prefix-claim.ts';
import type { ReadClaim } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';
import { range } from '../transport/helpers.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

const claim = claimPrefix(true);
const LEASE_MS = 3000;

function table(changes: Partial<Pick<HoldTableDeps, 'claim' | 'groups'>> = {}) {
  const clock = new TestClock(0);
  const ended: string[] = [];
  let starves = false;
  let droppable = 0;
  const holds = new HoldTable({
    clock,
    blockSize: 4,
    groups: [{ kind: 'full' }],
    claim,
    leaseMs: LEASE_MS,
    ...changes,
    onEnd: (requestId, end, direction) => ended.push(`${requestId} ${end} ${direction}`),
    onDeadline: () => {},
    onDroppable: () => void droppable++,
    streamStarves: () => starves,
  });
  /** Ten tokens in the blocks 5, 6 and 7. */
  const hold = (id: string, changes: Partial<SendRequest> = {}) => {
    holds.process(id);
    const send = { blockIds: [[5, 6, 7]], tokenIds: range(0, 10), cacheSalt: null, deadline: 1000 };
    holds.hold(id, { ...send, direction: 'decode', ...changes });
  };
  const starve = () => {
    starves = true;
  };
  return { clock, holds, hold, ended, starve, droppable: () => droppable };
}

const of = (numTokens: number, prompt = range(0, 10), salt: string | null = null): ReadClaim => {
  return { held: claim(range(0, 10), 10, salt), prompt: claim(prompt, numTokens, salt) };
};

describe('the gate', () => {
  it('admits a reader that knows the tokens, up to the last block that its prompt shares', () => {
    for (const [ids, numTokens] of [
      [[5, 6, 7], 10],
      [[7], 10],
      [[6, 7], 9],
      [[5, 6], 8],
      [[6], 5],
    ] as const) {
      const { holds, hold } = table();
      hold('r');
      expect(holds.gate('r', [ids], of(numTokens), 'reader'), `${ids}`).toMatchObject({
        allow: true,
      });
      expect(holds.list()[0]).toMatchObject({ reading: true });
    }
  });

  it.each<[string, number[], ReadClaim]>([
    ['a block that is not held', [5, 6, 8], of(10)],
    ['blocks in another order', [6, 5, 7], of(10)],
    ['the null block', [0], of(10)],
    ['more blocks than the prompt has', [5, 6, 7], of(8)],
    ['the first block as if it were the last', [5], of(10)],
    ['a prompt of other tokens', [5, 6, 7], of(10, [...range(0, 9), 77])],
    ['a prompt of more tokens', [5, 6, 7], of(11, range(0, 11))],
    ['a different salt', [5, 6, 7], of(10, range(0, 10), 'salt')],
    ['a claim to other held tokens', [5, 6, 7], { ...of(10), held: claim(range(0, 9), 9, null) }],
  ])('refuses %s, and neither pins nor ends the hold', (_, ids, shown) => {
    const { holds, hold, ended } = table();
    hold('r');
    expect(holds.gate('r', [ids], shown, 'stranger')).toEqual(REFUSED);
    expect(holds.list()).toMatchObject([{ requestId: 'r', reading: false }]);
    expect(ended).toEqual([]);
  });

  it('refuses a prompt of more tokens than are held, even without the token check', () => {
    const untold = claimPrefix(false);
    const { holds, hold } = table({ claim: untold });
    hold('r');
    const shown = (numTokens: number) => ({
      held: untold([], 10, null),
      prompt: untold([], numTokens, null),
    });
    expect(holds.gate('r', [[5, 6, 7]], shown(11), 'x')).toEqual(REFUSED);
    expect(holds.gate('r', [[5, 6, 7]], shown(10), 'x')).toMatchObject({ allow: true });
  });

  describe('for a full and a windowed group', () => {
    // Token 10 sees the last 5 tokens, from block 1 on. The null block stands for what the window has passed.
    const groups = [{ kind: 'full' as const }, { kind: 'sliding' as const, window: 5 }];
    const tables = {
      blockIds: [
        [5, 6, 7],
        [0, 8, 9],
      ],
    };
    it.each([
      [true, [5, 6, 7], [8, 9]],
      [true, [7], [9]],
      [true, [6, 7], [8, 9]],
      [false, [5, 6, 7], []],
      [false, [5, 6, 7], [9]],
      [false, [5, 6, 7], [9, 8]],
      [false, [5, 6, 7], [0, 8, 9]],
      [false, [6, 5, 7], [8, 9]],
    ])('answers %s to a READ of blocks %j and %j', (allow, full, windowed) => {
      const { holds, hold } = table({ groups });
      hold('r', tables);
      expect(holds.gate('r', [full, windowed], of(10), 'x')).toMatchObject({
        allow,
      });
    });
  });

  it('refuses blocks of a group that does not exist', () => {
    const { holds, hold } = table();
    hold('r');
    expect(holds.gate('r', [[7], [], [], [1]], of(10), 'x')).toEqual(REFUSED);
    expect(holds.list()[0]!.reading).toBe(false);
  });

  it('unpins once per READ, even if its end is reported twice', () => {
    const { holds, hold, ended } = table();
    hold('r');
    const first = holds.gate('r', [[7]], of(10), 'a');
    const second = holds.gate('r', [[7]], of(10), 'b');
    if (!first.allow || !second.allow) throw new Error('not let in');
    first.finished();
    first.finished();
    holds.release('r');
    expect(ended).toEqual([]);
    second.finished();
    expect(ended).toEqual(['r released decode']);
  });
});

describe('when a reading engine ends', () => {
  it('the holds that it was reading are released, and no others', () => {
    const { holds, hold, ended } = table();
    hold('mine');
    hold('other');
    for (const [id, reader] of [
      ['mine', 'a'],
      ['other', 'b'],
    ] as const) {
      const opened = holds.open(id, of(10), reader);
      if (opened.allow) opened.finished();
    }
    holds.readerGone('a');
    expect(ended).toEqual(['mine released decode']);
  });
});

describe('the end of a hold', () => {
  it('comes at once with expireNow(), for all holds of the direction', () => {
    const { holds, hold, ended } = table();
    hold('d1');
    hold('p', { direction: 'prefill' });
    hold('d2');
    expect(holds.expireNow('decode')).toBe(2);
    expect(ended).toEqual(['d1 expired decode', 'd2 expired decode']);
    expect(holds.list()).toMatchObject([{ requestId: 'p', deadline: 1000 }]);
  });

  it('is due at the earliest deadline, in any order of holds', () => {
    const { holds, hold } = table();
    expect(holds.nextDeadline()).toBeNull();
    hold('late', { deadline: 900 });
    hold('early', { deadline: 300 });
    hold('later', { deadline: 950 });
    expect(holds.nextDeadline()).toBe(300);
    holds.release('early');
    expect(holds.nextDeadline()).toBe(900);
  });

  it('frees its memory at once, even behind an older hold that stays', async () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const { holds, hold } = table();
    hold('stays', { deadline: 500_000 });
    const read = (): WeakRef<object> => {
      const tokenIds = range(0, 10);
      hold('read', { deadline: 600_000, tokenIds });
      holds.doneReading({ requestId: 'read', held: of(10).held });
      return new WeakRef(tokenIds);
    };
    const tokenIds = read();
    // The target of a new WeakRef stays alive until the current task ends.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(tokenIds.deref()).toBeUndefined();
    expect(holds.list()).toMatchObject([{ requestId: 'stays' }]);
  });

  it("comes by a drop, for P's holds, only if all requests are stuck and a stream starves", () => {
    const { holds, hold, starve } = table();
    hold('p', { direction: 'prefill', deadline: 90_000 });
    expect(holds.dropOldest('stuck')).toBeNull();
    starve();
    expect(holds.dropOldest('waiting')).toBeNull();
    expect(holds.dropOldest('stuck')).toBe('p');
  });

  it('waits for the last READ, and no further READ may begin', () => {
    const { holds, hold, ended } = table();
    hold('r');
    const opened = [holds.open('r', of(10), 'x'), holds.open('r', of(10), 'y')];
    holds.doneReading({ requestId: 'r', held: of(10).held });
    expect(holds.open('r', of(10), 'z')).toEqual(REFUSED);
    for (const [i, one] of opened.entries()) {
      expect(ended).toEqual([]);
      if (one.allow) one.finished();
      if (i === 0 && one.allow) one.finished();
    }
    expect(ended).toEqual(['r read decode']);
  });

  it("may come by a drop, for P's holds, from a third of the lease on, which is reported once", () => {
    const { holds, hold, clock, droppable } = table();
    hold('d', { deadline: 90_000 });
    expect(holds.nextDeadline()).toBe(90_000);
    hold('p', { direction: 'prefill', deadline: 90_000 });
    expect(holds.nextDeadline()).toBe(LEASE_MS / 3);
    clock.advance(LEASE_MS / 3 - 1);
    holds.expire();
    expect(droppable()).toBe(0);
    clock.advance(1);
    holds.expire();
    holds.expire();
    expect([droppable(), holds.nextDeadline()]).toEqual([1, 90_000]);
  });

  it('is not caused by a done_reading that came before its request was announced', () => {
    const { holds, hold } = table();
    holds.doneReading({ requestId: 'r', held: of(10).held });
    hold('r');
    expect(holds.list()).toMatchObject([{ requestId: 'r' }]);
  });

  it('comes as soon as it begins, if its request was announced and then released', () => {
    const { holds, hold, ended } = table();
    holds.release('never announced');
    hold('never announced');
    holds.process('r');
    holds.release('r');
    hold('r');
    expect(ended).toEqual(['r released null']);
    holds.process('leaves nothing');
    holds.release('leaves nothing');
    holds.notProcessed('leaves nothing');
    hold('leaves nothing');
    expect(holds.list()).toMatchObject([{ requestId: 'never announced' }, { requestId: 'leaves nothing' }]);
  });

  it('by a drop is remembered for as long as the hold would have lasted', () => {
    const { holds, hold, clock } = table();
    hold('d', { deadline: 9000 });
    holds.dropOldest('waiting');
    clock.advance(LEASE_MS + 1000);
    hold('next', { deadline: 90_000 });
    holds.release('next');
    expect(holds.open('d', of(10), 'x')).toMatchObject({ outcome: 'declined' });
  });

  it('ends the count of its blocks in use(), which is by direction', () => {
    const { holds, hold, clock } = table();
    hold('d');
    hold('p', { direction: 'prefill', blockIds: [[8]], tokenIds: range(0, 4) });
    clock.advance(100);
    expect(holds.use()).toMatchObject({
      decode: { blocks: 3, blockMs: 300 },
      prefill: { blocks: 1, blockMs: 100 },
    });
    holds.release('d');
    expect(holds.use()).toMatchObject({ decode: { blocks: 0 }, prefill: { blocks: 1 } });
  });

  it('is explained only to its own reader, for a limited time, and not after a complete read', () => {
    const { holds, hold, clock } = table();
    hold('dropped');
    hold('read');
    holds.dropOldest('waiting');
    holds.doneReading({ requestId: 'read', held: of(10).held });
    expect(holds.open('dropped', of(10), 'x')).toMatchObject({ allow: false, outcome: 'declined' });
    expect(holds.open('dropped', of(10, range(0, 10), 'salt'), 'x')).toEqual(REFUSED);
    expect(holds.open('read', of(10), 'x')).toEqual(REFUSED);
    expect([holds.knows('dropped'), holds.knows('read'), holds.knows('nobody')]).toEqual([true, true, false]);
    clock.advance(LEASE_MS);
    hold('next');
    holds.release('next');
    expect(holds.knows('dropped')).toBe(false);
  });

  it('after a complete read is remembered for the last REMEMBERED_ENDS holds', () => {
    const ends = new HoldEnds(new TestClock(0));
    const { held } = of(10);
    for (let i = 0; i < REMEMBERED_ENDS; i++) ends.remember(`r${i}`, 'read', held, 0);
    expect(ends.knows('r0')).toBe(true);
    ends.remember('last', 'read', held, 0);
    expect([ends.knows('r0'), ends.knows('r1'), ends.knows('last')]).toEqual([false, true, true]);
  });
});

describe('a request that is refused on arrival', () => {
  const refusedBy = async (asked: ReturnType<typeof decodeRequest>) => {
    const engine = new ScriptedEngine();
    engine.core.refuseRequest(asked);
    await engine.settle();
    return engine.worker.metadata.flatMap(({ refused }) => refused);
  };

  it('tells its holder which hold will not be read, with the claim to it', async () => {
    const found = await refusedBy(decodeRequest('d', tokens(40)));
    const held = claim(tokens(40), 40, null);
    expect(found).toEqual([
      {
        remote: expect.objectContaining({ engineId: 'prefill-engine', host: 'localhost', port: 5601 }),
        hold: { requestId: 'remote-request', held },
      },
    ]);
    expect(await refusedBy(prefillRequest('p', tokens(50), tokens(40)))).toHaveLength(1);
  });

  it('tells nobody if it names no holder or no blocks', async () => {
    const asked = decodeRequest('d', tokens(40));
    const changed = (changes: object) => ({
      ...asked,
      kvTransferParams: { ...asked.kvTransferParams!, ...changes },
    });
    for (const nothing of [
      { ...asked, kvTransferParams: null },
      changed({ do_remote_prefill: false }),
      changed({ remote_block_ids: [[]] }),
      changed({ remote_block_ids: null }),
      changed({ remote_host: undefined }),
    ])
      expect(await refusedBy(nothing)).toEqual([]);
  });
});

it('tokenContext sums over tokens how many come before each', () => {
  expect(tokenContext(0, 1)).toBe(0);
  expect(tokenContext(100, 1)).toBe(100);
  // 10 + 11 + 12 + 13.
  expect(tokenContext(10, 4)).toBe(46);
});
