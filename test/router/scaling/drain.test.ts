import { expect, it } from 'vitest';
import type { Drain } from '../../../src/config/autoscale.ts';
import type { TurnStart } from '../../../src/router/conversation.ts';
import { ConversationCache } from '../../../src/router/conversations.ts';
import { drainEngine, successorOf } from '../../../src/router/scaling/drain.ts';
import { TurnsByEngine } from '../../../src/router/turns-by-engine.ts';
import { settled, TestClock } from '../../clock.ts';
import { FakeEngine } from '../fake-engine.ts';

/** decode-0 is leaving and holds 5 tokens of 'a' and 7 of 'b'; decode-1 stays. */
function world(drain: Drain, holdsMs = 1000) {
  const clock = new TestClock(0);
  const [client, successor] = [new FakeEngine('decode-0', 'decode'), new FakeEngine('decode-1', 'decode')];
  const conversations = new ConversationCache(clock);
  const turns = new TurnsByEngine();
  const left = { requests: 0, holds: 0 };
  const own = { remaining: async () => left };
  const holds = (id: string, tokens: number): void => {
    const request = { conversationId: id, promptText: 'x' };
    const ids = Array.from({ length: tokens }, (_, i) => i);
    const params = {
      do_remote_decode: true,
      do_remote_prefill: false,
      remote_request_id: `${id}-d`,
      remote_num_tokens: tokens,
      remote_token_ids: ids,
    };
    const kv = { params, holder: client, atMs: 0 };
    const before = {} as TurnStart;
    client.holds.add(`${id}-d`);
    conversations.finish(conversations.open(request), request, { historyIds: ids, text: '', kv, before });
  };
  holds('a', 5);
  holds('b', 7);
  const moves: string[] = [];
  const start = () =>
    drainEngine(
      { client, remaining: () => own.remaining() },
      { drain, holdsMs },
      {
        ...{
          clock,
          conversations,
          turns,
          successor: () => (successor.ended ? null : successor),
          newId: (name) => `${name}!`,
        },
        onMove: ({ id }, requestId) => moves.push(`${id} by ${requestId}`),
      },
    );
  const pass = async (ms: number): Promise<void> => {
    for (const end = clock.now() + ms; clock.now() < end; clock.advance(20)) await settled();
    await settled();
  };
  return { clock, client, successor, conversations, turns, left, own, holds, moves, start, pass };
}

const none = { holds: 0, tokens: 0 };

it('migrate moves all holds to another D for the same conversations', async () => {
  const { client, successor, conversations, moves, start } = world('migrate');
  const report = await start();
  expect(moves).toEqual(successor.requests.map(({ requestId }, i) => `${'ab'[i]} by ${requestId}`));
  expect(report).toEqual({ ms: 0, migrated: { holds: 2, tokens: 12 }, lost: none });
  expect(successor.requests.map(({ promptTokenIds }) => promptTokenIds.length)).toEqual([5, 7]);
  expect(successor.requests[0]!.sampling).toMatchObject({ maxTokens: 1 });
  expect(successor.requests[0]!.kvTransferParams).toMatchObject({
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_request_id: 'a-d',
  });
  expect([...client.holds]).toEqual([]);
  for (const [id, tokens] of [['a', 5] as const, ['b', 7] as const]) {
    const { kv } = conversations.known(id)!;
    expect(kv).toMatchObject({ holder: successor, params: { remote_num_tokens: tokens } });
    expect(successor.holds.has(kv!.params.remote_request_id!)).toBe(true);
  }
});

it('migrate releases holds that no engine can take or that fail to move, and counts them as lost', async () => {
  const failing = world('migrate');
  failing.successor.fails = (id) => (id.startsWith('a') ? 'no such luck' : null);
  expect(await failing.start()).toMatchObject({
    migrated: { holds: 1, tokens: 7 },
    lost: { holds: 1, tokens: 5 },
  });
  expect(failing.conversations.known('a')!.kv).toBeNull();
  expect([...failing.client.holds]).toEqual([]);
  const alone = world('migrate');
  alone.successor.end();
  expect(await alone.start()).toMatchObject({ migrated: none, lost: { holds: 2, tokens: 12 } });
  expect([...alone.client.holds]).toEqual([]);
});

it('migrate lets a turn that arrives in the meantime wait for the new holder', async () => {
  const { successor, conversations, start, pass } = world('migrate');
  let go: () => void = () => {};
  successor.pace = () => new Promise((resolve) => (go = resolve));
  const report = start();
  await settled();
  const conversation = conversations.known('a')!;
  expect(conversation.kv).toBeNull();
  const waits = conversations.moving(conversation)!;
  expect(waits).not.toBeNull();
  go();
  await waits;
  expect(conversations.takeHeld(conversation)).toMatchObject({ holder: successor });
  await settled();
  go();
  await pass(20);
  expect(await report).toMatchObject({ migrated: { holds: 2, tokens: 12 } });
});

it('drop does not wait for an engine that does not answer the release of its holds', async () => {
  const { client, conversations, start } = world('drop');
  client.release = () => new Promise(() => {});
  expect(await start()).toMatchObject({ lost: { holds: 2, tokens: 12 } });
  expect(conversations.heldAt('decode-0')).toEqual([]);
});

it('wait lasts until the next turns have read all holds, or until holdsMs is over', async () => {
  const { client, conversations, turns, start, pass } = world('wait');
  let ended = false;
  const report = start().finally(() => (ended = true));
  await pass(400);
  const leave = turns.enter(['decode-0']);
  conversations.takeHeld(conversations.known('a')!);
  conversations.takeHeld(conversations.known('b')!);
  await pass(200);
  expect(ended).toBe(false);
  leave();
  await pass(20);
  expect(await report).toMatchObject({ migrated: none, lost: none });
  const late = world('wait');
  const lost = late.start();
  await late.pass(980);
  expect(late.conversations.heldAt('decode-0')).toHaveLength(2);
  await late.pass(60);
  expect(await lost).toEqual({ ms: 1000, migrated: none, lost: { holds: 2, tokens: 12 } });
  expect([...late.client.holds]).toEqual([]);
  expect([...client.holds]).not.toEqual([]);
});

it('drop loses holds at once, but waits for turns under way and for the holds they leave', async () => {
  const { client, turns, holds, start, pass } = world('drop', 60);
  const leave = turns.enter(['decode-0']);
  let ended = false;
  const report = start().finally(() => (ended = true));
  await settled();
  expect([...client.holds]).toEqual([]);
  await pass(5000);
  expect(ended).toBe(false);
  holds('c', 3);
  leave();
  await pass(40);
  expect(await report).toMatchObject({ lost: { holds: 3, tokens: 15 } });
});

it('draining waits for other requests to end, and at most holdsMs for other holds', async () => {
  const { left, start, pass } = world('drop', 100);
  left.requests = 1;
  left.holds = 1;
  let ended = false;
  const report = start().finally(() => (ended = true));
  await pass(2000);
  expect(ended).toBe(false);
  left.requests = 0;
  await pass(40);
  expect(await report).toMatchObject({ lost: { holds: 3, tokens: 12 } });
});

it.each<Drain>(['wait', 'migrate', 'drop'])('%s counts no hold twice that is freed late', async (drain) => {
  const { clock, client, own, start, pass } = world(drain, 0);
  const { release } = client;
  client.release = (ids) => clock.sleep(10).then(() => release.call(client, ids));
  client.holds.add('of its own port');
  own.remaining = async () => ({ requests: 0, holds: client.holds.size });
  const report = start();
  await pass(40);
  expect(await report).toEqual({ ms: 20, migrated: none, lost: { holds: 3, tokens: 12 } });
});

it.each<Drain>(['wait', 'migrate', 'drop'])(
  '%s neither waits for holds that are too old to be offered nor counts them',
  async (drain) => {
    const { clock, client, conversations, own, moves, start, pass } = world(drain);
    own.remaining = async () => ({ requests: 0, holds: client.holds.size });
    clock.advance(450_000);
    expect(conversations.heldAt('decode-0')).toEqual([]);
    const report = start();
    await pass(20);
    expect(await report).toEqual({ ms: 0, migrated: none, lost: none });
    expect([client.released, moves]).toEqual([['a-d', 'b-d'], []]);
  },
);

it('wait ends when the last hold becomes too old to be offered', async () => {
  const { clock, client, start, pass } = world('wait');
  clock.advance(449_900);
  const report = start();
  await pass(1020);
  expect(await report).toEqual({ ms: 100, migrated: none, lost: none });
  expect([...client.holds]).toEqual([]);
});

it('the holds of an engine that ends while it drains count as lost', async () => {
  const { client, start, pass, turns } = world('wait', 60_000);
  turns.enter(['decode-0'])();
  const report = start();
  await pass(100);
  client.end();
  await pass(40);
  expect(await report).toMatchObject({ migrated: none, lost: { holds: 2, tokens: 12 } });
});

it('the successor is the least busy engine of the role, within the roleset if possible', () => {
  const d = (engineId: string, roleset: string, inFlight: number) => {
    const role = engineId.startsWith('p') ? ('prefill' as const) : ('decode' as const);
    return { engineId, role, roleset, ended: null, load: { inFlight } };
  };
  const leaving = d('decode-0', 'a', 0);
  const far = d('decode-1', 'b', 0);
  const [busy, idle] = [d('decode-2', 'a', 2), d('decode-3', 'a', 1)];
  const p = d('prefill-0', 'a', 0);
  expect(successorOf(leaving, [p, far, busy, idle])).toBe(idle);
  expect(successorOf(leaving, [p, far])).toBe(far);
  expect(successorOf(leaving, [p])).toBeNull();
});
