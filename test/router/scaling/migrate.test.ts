/** What another D is asked for when it takes over a hold, and what becomes of a hold that it cannot take. */
import { expect, it } from 'vitest';
import type { KvTransferParams } from '../../../src/config/kv-transfer.ts';
import { migrate } from '../../../src/router/scaling/migrate.ts';
import { TestClock } from '../../clock.ts';
import { FakeEngine } from '../fake-engine.ts';

const held: KvTransferParams = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: 'decode-0',
  remote_request_id: 'a-d',
  remote_num_tokens: 3,
  remote_token_ids: [7, 8, 9, 10],
};

function world() {
  const from = new FakeEngine('decode-0', 'decode');
  const to = new FakeEngine('decode-1', 'decode');
  const leaving = new AbortController();
  const move = (params: KvTransferParams = held) =>
    migrate({ params, holder: from, atMs: 0 }, to, 'salt', 'moved', new TestClock(500), leaving.signal);
  return { to, leaving, move };
}

it('asks the other D for the held tokens only, as a prompt that is pulled', async () => {
  const { to, move } = world();
  expect(await move()).toMatchObject({
    holder: to,
    atMs: 500,
    params: { remote_engine_id: 'decode-1', remote_request_id: 'moved', remote_num_tokens: 3 },
  });
  expect(to.requests).toMatchObject([
    {
      ...{ requestId: 'moved', promptTokenIds: [7, 8, 9], cacheSalt: 'salt' },
      // The token that it computes is sampled for nothing, so it must not end the hold.
      sampling: { maxTokens: 1, ignoreEos: true },
      kvTransferParams: { ...held, do_remote_prefill: true, do_remote_decode: false },
    },
  ]);
});

it.each([
  ['names no tokens', { remote_token_ids: null }],
  ['names tokens but holds none of them', { remote_num_tokens: 0 }],
  ['does not say how many it holds', { remote_num_tokens: null }],
])('asks nothing for a hold that %s, which is lost', async (_, change) => {
  const { to, move } = world();
  expect(await move({ ...held, ...change } as KvTransferParams)).toBeNull();
  expect(to.requests).toEqual([]);
});

it('loses the hold if the other D fails, ends, or keeps nothing', async () => {
  for (const failure of ['no KV came', 'ends'] as const) {
    const { to, move } = world();
    to.fails = () => failure;
    expect(await move()).toBeNull();
  }
  const { to, move } = world();
  to.submit = (request) =>
    FakeEngine.prototype.submit.call(to, Object.assign({}, request, { kvTransferParams: null }));
  expect(await move()).toBeNull();
});

it('loses the hold if it must stop, whatever the reason for that', async () => {
  const { to, leaving, move } = world();
  to.pace = async () => leaving.abort('no more time');
  expect(await move()).toBeNull();
  expect(to.aborted).toEqual(['moved']);
});

it('hides no error that is not its own', async () => {
  const { to, move } = world();
  to.submit = async () => {
    throw new TypeError('a bug');
  };
  await expect(move()).rejects.toThrow('a bug');
});
