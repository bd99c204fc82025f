/** Sequences that are read while they are computed: what readers see, when they are woken, what is revoked. No transport. */
import { describe, expect, it } from 'vitest';
import { REFUSED, REMEMBERED_ENDS } from '../../src/connector/nixl/hold-ends.ts';
import { HoldTable } from '../../src/connector/nixl/holds.ts';
import { StreamTable } from '../../src/connector/nixl/streams.ts';
import { claimPrefix } from '../../src/transport/prefix-claim.ts';
import type { BlockStream, ReadClaim } from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';
import { range } from '../transport/helpers.ts';

const claim = claimPrefix(true);
const of = (held: number, prompt = held): ReadClaim => ({
  held: claim(range(0, held), held, null),
  prompt: claim(range(0, prompt), prompt, null),
});
const PATIENCE_MS = 3000;

/** Blocks of four tokens; sequences of ten. */
function start() {
  const clock = new TestClock(0);
  const ended: string[] = [];
  let starvings = 0;
  const holds = new HoldTable({
    ...{ clock, blockSize: 4, groups: [{ kind: 'full' as const }], claim, leaseMs: 30_000 },
    onEnd: (requestId, end) => void ended.push(`${requestId} ${end}`),
    ...{ onDeadline() {}, onDroppable() {}, streamStarves: () => false },
  });
  const streams = new StreamTable({
    ...{ holds, clock, blockSize: 4, claim, patienceMs: PATIENCE_MS },
    onStarving: () => void starvings++,
  });
  const computed = (id: string, blockIds: number[], numTokens: number) =>
    streams.computed(id, {
      ...{ blockIds: blockIds.length > 0 ? [blockIds] : [], numTokens },
      ...{ tokenIds: range(0, 10), cacheSalt: null },
    });
  const hold = (id: string, blockIds: readonly number[][]) => {
    holds.process(id);
    const send = { blockIds, tokenIds: range(0, 10), cacheSalt: null, deadline: 30_000 };
    holds.hold(id, { ...send, direction: 'prefill' });
    streams.held(id);
  };
  const open = (id: string, shown = of(10)) => streams.gate(id, shown, 'decode-0');
  /** What the stream answers for the block, or 'waits' if nothing yet. */
  const look = async (stream: BlockStream, index: number) => {
    let told: Awaited<ReturnType<BlockStream['ready']>> | 'waits' = 'waits';
    const stop = new AbortController();
    void stream.ready(index, stop.signal).then((ready) => {
      told = ready;
    });
    await settled();
    const now = told;
    stop.abort();
    await settled();
    return now;
  };
  return { clock, holds, streams, ended, computed, hold, open, look, starvings: () => starvings };
}

describe('a reader', () => {
  it('sees whole blocks once they have KV, and is woken only by its own request', async () => {
    const { streams, computed, open } = start();
    const stream = open('r');
    const told: string[] = [];
    const { signal } = new AbortController();
    const waiting = stream.ready(1, signal).then((ready) => {
      told.push(ready && 'numBlocks' in ready ? `${ready.numBlocks} of ${ready.blockIds[0]}` : 'end');
    });
    computed('r', [5, 6], 7);
    computed('other', [8, 9], 8);
    await settled();
    expect(told).toEqual([]);
    computed('r', [5, 6], 8);
    await waiting;
    expect(told).toEqual(['2 of 5,6']);
    expect(await stream.ready(1, AbortSignal.abort())).toBeNull();
    streams.ended('r');
    expect(await stream.ready(1, signal)).toMatchObject({ outcome: 'declined' });
  });

  it.each([
    ['other tokens held', of(9, 10)],
    ['another prompt', of(10, 9)],
  ])(
    'that claims %s is refused, and pins the later hold only if it knows the held tokens',
    async (_, shown) => {
      const { holds, computed, hold, open, look } = start();
      computed('r', [5, 6, 7], 8);
      const stranger = open('r', shown);
      expect(await look(stranger, 0)).toEqual(REFUSED);
      hold('r', [[5, 6, 7]]);
      expect(holds.list()).toMatchObject([{ requestId: 'r', reading: shown.held.numTokens === 10 }]);
    },
  );

  it('that does not know the held tokens is refused', async () => {
    const { hold, open, look } = start();
    hold('r', [[5, 6, 7]]);
    expect(await look(open('r', of(9, 10)), 0)).toEqual(REFUSED);
    expect(await look(open('r'), 2)).toMatchObject({ blockIds: [[5, 6, 7]], numBlocks: 3 });
  });

  it('can read as far as the longest group goes', async () => {
    const { hold, open, look } = start();
    hold('r', [[5, 6, 7], [8]]);
    const stream = open('r');
    expect(await look(stream, 2)).toMatchObject({ numBlocks: 3 });
    expect(await look(stream, 3)).toMatchObject({ outcome: 'failed' });
  });

  it("pins its request's hold as soon as that is made, and unpins it once", async () => {
    const { holds, ended, computed, hold, open } = start();
    computed('r', [5, 6, 7], 8);
    computed('s', [8, 9, 10], 8);
    const [first, second, other] = [open('r'), open('r'), open('s')];
    hold('r', [[5, 6, 7]]);
    hold('s', [[8, 9, 10]]);
    expect(holds.list()).toMatchObject([{ reading: true }, { reading: true }]);
    holds.release('r');
    first.finished();
    first.finished();
    expect(ended).toEqual([]);
    second.finished();
    expect(ended).toEqual(['r released']);
    other.finished();
    expect(holds.list()).toMatchObject([{ requestId: 's', reading: false }]);
  });

  it('fails if its request has not arrived in time, but keeps waiting for one that has', async () => {
    const { clock, computed, open } = start();
    const told: unknown[] = [];
    const { signal } = new AbortController();
    for (const id of ['unknown', 'known']) {
      void open(id)
        .ready(0, signal)
        .then((ready) => told.push([id, ready]));
    }
    computed('known', [], 0);
    await settled();
    clock.advance(PATIENCE_MS - 1);
    await settled();
    expect(told).toEqual([]);
    clock.advance(1);
    await settled();
    expect(told).toMatchObject([['unknown', { outcome: 'failed' }]]);
    clock.advance(10 * PATIENCE_MS);
    await settled();
    expect(told).toHaveLength(1);
    computed('known', [5], 4);
    await settled();
    expect(told[1]).toMatchObject(['known', { numBlocks: 1 }]);
  });
});

it('blocks are revoked when they are freed, but not when they stay or further ones are added', async () => {
  const { computed, open, look } = start();
  computed('r', [5, 6], 8);
  const stream = open('r');
  const before = await look(stream, 0);
  computed('r', [5, 6], 8);
  computed('r', [5, 6, 7], 9);
  expect(before).toMatchObject({ revoked: { aborted: false } });
  computed('r', [], 0);
  expect(before).toMatchObject({ revoked: { aborted: true } });
  computed('r', [8, 9], 8);
  const after = await look(stream, 1);
  expect(after).toMatchObject({ blockIds: [[8, 9]], revoked: { aborted: false } });
});

it('a reader of a request without blocks is reported as starving, until it leaves or blocks come', () => {
  const { streams, computed, open, starvings } = start();
  computed('r', [], 0);
  computed('s', [5], 4);
  const other = open('s');
  expect([starvings(), streams.starving]).toEqual([0, false]);
  const stream = open('r');
  expect([starvings(), streams.starving]).toEqual([1, true]);
  stream.finished();
  expect(streams.starving).toBe(false);
  computed('r', [], 0);
  expect(starvings()).toBe(1);
  const early = open('t');
  expect(starvings()).toBe(1);
  computed('t', [], 0);
  expect(starvings()).toBe(2);
  computed('t', [6], 4);
  expect(streams.starving).toBe(false);
  early.finished();
  other.finished();
});

it('only the last REMEMBERED_ENDS requests that ended are remembered', async () => {
  const { streams, open, look } = start();
  for (let i = 0; i <= REMEMBERED_ENDS; i++) streams.ended(`r${i}`);
  expect(await look(open('r0'), 0)).toBe('waits');
  expect(await look(open('r1'), 0)).toMatchObject({ outcome: 'declined' });
  expect(await look(open(`r${REMEMBERED_ENDS}`), 0)).toMatchObject({ outcome: 'declined' });
});
