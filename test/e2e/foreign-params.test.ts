/** Clients that send other clients' kv_transfer_params to engines: they get nothing, and the owners are unaffected. */
import { describe, expect, it } from 'vitest';
import { REFUSED } from '../../src/connector/nixl/hold-ends.ts';
import { testOptions } from './cluster-fixture.ts';
import { inUse, post, type Served, withServer } from './server-fixture.ts';

type Json = Record<string, unknown>;

const PROMPT = Array.from({ length: 40 }, (_, i) => 10 + ((i * 37) % 400));
const OTHER = PROMPT.map((id) => id + 1);
const MISS = { do_remote_decode: true, do_remote_prefill: false };

interface Answer {
  status: number;
  token_ids: number[];
  params: Json | null;
  error: { message: string; param: string | null } | null;
}

/** One request to one engine's port. */
async function ask(url: string, ids: readonly number[], maxTokens: number, more: Json): Promise<Answer> {
  const { kv_transfer_params, ...rest } = more;
  const sampling_params = { max_tokens: maxTokens, temperature: 0, ignore_eos: true };
  const body = { token_ids: ids, sampling_params, kv_transfer_params, ...rest };
  const response = await post(`${url}/inference/v1/generate`, body);
  const json = (await response.json()) as {
    choices?: { token_ids: number[] }[];
    kv_transfer_params?: Json;
    error?: Answer['error'];
  };
  const token_ids = json.choices?.[0]?.token_ids ?? [];
  return {
    status: response.status,
    token_ids,
    params: json.kv_transfer_params ?? null,
    error: json.error ?? null,
  };
}

const prefill = ({ urls }: Served, ids: readonly number[], params: Json, more: Json = {}) =>
  ask(urls.prefill, ids, 1, {
    kv_transfer_params: { ...params, do_remote_decode: true, do_remote_prefill: false },
    ...more,
  });

const decode = ({ urls }: Served, ids: readonly number[], params: Json, more: Json = {}) =>
  ask(urls.decode, ids, 12, { kv_transfer_params: params, ...more });

/** P, then D, as a proxy does it; D then holds what the turn left. */
async function turn(served: Served, ids: readonly number[], remote: Json | null, more: Json = {}) {
  const prefilled = await prefill(served, ids, remote ?? MISS, more);
  expect(prefilled).toMatchObject({ status: 200, error: null });
  const decoded = await decode(served, ids, prefilled.params!, more);
  expect(decoded).toMatchObject({ status: 200, error: null });
  return { tokenIds: decoded.token_ids, params: decoded.params!, prefillParams: prefilled.params! };
}

const alone = async ({ urls }: Served, ids: readonly number[], more: Json = {}) =>
  (await ask(urls.decode, ids, 12, { cache_salt: 'alone', ...more })).token_ids;

const failing = { connector: { ...testOptions.connector, loadFailurePolicy: 'fail' as const } };
const withCache = { prefill: { numBlocks: 128, enablePrefixCaching: true } };

describe('request ids in kv_transfer_params', () => {
  it('end in 128 random bits after the id that the client or the router gave', async () => {
    await withServer({}, {}, async (served) => {
      const { params, prefillParams } = await turn(served, PROMPT, null, { request_id: 'mine' });
      const id = /^mine-[0-9a-f]{32}$/;
      expect(prefillParams.remote_request_id).toMatch(id);
      expect(params.remote_request_id).toMatch(id);
      expect(params.remote_request_id).not.toBe(prefillParams.remote_request_id);
      const request = { prompt: 'x', max_tokens: 2, request_id: 'mine' };
      const answer = await post(`${served.urls.prefill}/v1/completions`, request);
      expect(await answer.json()).toMatchObject({ id: 'cmpl-mine' });
      await (await post(`${served.urls.router}/v1/completions`, { prompt: 'Hello', max_tokens: 4 })).json();
      const held = (await served.cluster.queryCache({ conversationId: null, promptText: 'Hello' })).engines
        .flatMap((engine) => engine.held)
        .map(({ requestId }) => requestId);
      expect(held).toEqual([expect.stringMatching(/^anonymous-\d+#1\.\d+-d-[0-9a-f]{32}$/)]);
    });
  });
});

/** Ways in which a stranger can alter someone else's parameters and the prompt sent with them. */
function attacks(params: Json, prompt: readonly number[]): Record<string, [readonly number[], Json, Json?]> {
  const blocks = (params.remote_block_ids as number[][])[0]!;
  const longer = [...prompt, 7, 8, 9];
  const others = OTHER.slice(0, params.remote_num_tokens as number);
  return {
    'a guessed id': [longer, { ...params, remote_request_id: 'anonymous-1#1.1-d' }],
    'an id that differs in its random part': [
      longer,
      { ...params, remote_request_id: `${params.remote_request_id}`.replace(/.$/, 'x') },
    ],
    'other tokens, told truly': [
      [...OTHER, 7, 8, 9],
      { ...params, remote_token_ids: others, remote_num_tokens: others.length },
    ],
    'other tokens, told as if they were the same': [
      [...OTHER, 7, 8, 9],
      { ...params, remote_token_ids: [...OTHER, ...others].slice(0, params.remote_num_tokens as number) },
    ],
    'only the beginning of the tokens': [
      longer,
      { ...params, remote_token_ids: prompt.slice(0, 16), remote_num_tokens: 16 },
    ],
    'more tokens than there are': [
      longer,
      { ...params, remote_token_ids: longer, remote_num_tokens: longer.length },
    ],
    'another cache_salt': [longer, params, { cache_salt: 'stranger' }],
    'blocks in another order': [longer, { ...params, remote_block_ids: [[...blocks].reverse()] }],
    'blocks moved by one': [longer, { ...params, remote_block_ids: [[...blocks.slice(1), blocks[0]!]] }],
    'blocks that nobody holds': [longer, { ...params, remote_block_ids: [blocks.map((id) => id + 50)] }],
    'blocks that do not exist': [longer, { ...params, remote_block_ids: [blocks.map((id) => id + 5000)] }],
  };
}

describe('a request refused by validation', () => {
  const doors: Record<string, (params: Json) => Json> = {
    'for a field': (params) => ({
      token_ids: PROMPT,
      sampling_params: { max_tokens: -1 },
      kv_transfer_params: params,
    }),
    'for the model': (params) => ({ token_ids: PROMPT, model: 'another', kv_transfer_params: params }),
    'for its length': (params) => ({ token_ids: Array(5000).fill(9), kv_transfer_params: params }),
    'for its parameters': (params) => ({
      token_ids: PROMPT,
      kv_transfer_params: { ...params, do_remote_decode: true, do_remote_prefill: true },
    }),
  };
  it('frees the hold its parameters name, but not when tokens or cache_salt are guessed wrong', async () => {
    await withServer({}, {}, async (served) => {
      for (const [what, body] of Object.entries(doors)) {
        const { params } = await prefill(served, PROMPT, MISS);
        const send = async (given: Json, more: Json = {}) =>
          (await post(`${served.urls.decode}/inference/v1/generate`, { ...body(given), ...more })).status;
        const held = async () => (await inUse(served.cluster)).held;
        expect(await held()).toBe(1);
        expect(await send({ ...params, remote_token_ids: OTHER })).toBeGreaterThanOrEqual(400);
        expect(await send(params!, { cache_salt: 'stranger' })).toBeGreaterThanOrEqual(400);
        // Messages arrive in order: once this turn is served, the earlier ones have arrived.
        await turn(served, OTHER, null);
        expect([what, await held()]).toEqual([what, 2]);
        expect(await send(params!)).toBeLessThan(500);
        await expect.poll(held).toBe(1);
        for (const { serving } of served.cluster.engines) await serving.releaseHolds('all');
        await expect.poll(held).toBe(0);
      }
    });
  });
});

describe('blocks that D holds for P', () => {
  it("policy fail: every forged request gets the same 400, and the owner's next turn is unaffected", async () => {
    await withServer({ ...failing, ...withCache }, {}, async (served) => {
      const first = await turn(served, PROMPT, null);
      // P's cache is now empty: everything must be pulled.
      expect((await post(`${served.urls.admin}/prefill-0/reset_prefix_cache`, {})).status).toBe(200);
      const history = [...PROMPT, ...first.tokenIds];
      const refusals = new Set<string>();
      for (const [what, [ids, params, more]] of Object.entries(attacks(first.params, history))) {
        const { status, error, params: left } = await prefill(served, ids, params, more);
        expect([what, status, left]).toEqual([what, 400, null]);
        refusals.add(JSON.stringify(error));
        expect((await inUse(served.cluster)).held, what).toBe(1);
      }
      expect([...refusals].map((error) => JSON.parse(error))).toEqual([
        {
          message: `prefill-0: ${REFUSED.message}`,
          type: 'BadRequestError',
          param: 'kv_transfer_params',
          code: 400,
        },
      ]);
      const prompt = [...history, 7, 8, 9];
      const second = await turn(served, prompt, first.params);
      expect(second.tokenIds).toEqual(await alone(served, prompt));
      const [p] = await served.cluster.stats();
      expect(p!.externalPrefixCache.hits).toBeGreaterThanOrEqual(first.params.remote_num_tokens as number);
      // Nothing was cached from a forged request.
      for (const ids of [[...OTHER, 7, 8, 9], prompt])
        expect((await turn(served, ids, null)).tokenIds).toEqual(await alone(served, ids));
    });
  });

  it('policy recompute: every forged request is recomputed with the right tokens, and the hold survives', async () => {
    await withServer(withCache, {}, async (served) => {
      const first = await turn(served, PROMPT, null);
      const history = [...PROMPT, ...first.tokenIds];
      for (const [what, [ids, params, more]] of Object.entries(attacks(first.params, history))) {
        const lied = await prefill(served, ids, params, more);
        expect([what, lied.status]).toEqual([what, 200]);
        const { token_ids } = await decode(served, ids, lied.params!, more);
        expect([what, token_ids]).toEqual([what, await alone(served, ids)]);
      }
      const before = (await served.cluster.stats())[0]!.externalPrefixCache.hits;
      expect((await post(`${served.urls.admin}/prefill-0/reset_prefix_cache`, {})).status).toBe(200);
      const prompt = [...history, 7, 8, 9];
      expect((await turn(served, prompt, first.params)).tokenIds).toEqual(await alone(served, prompt));
      const after = (await served.cluster.stats())[0]!.externalPrefixCache.hits;
      expect(after - before).toBe(first.params.remote_num_tokens);
    });
  });

  it('are not freed by a stranger below the recompute threshold', async () => {
    const connector = { ...testOptions.connector, recomputeThreshold: 5000 };
    await withServer({ connector, ...withCache }, {}, async (served) => {
      const first = await turn(served, PROMPT, null);
      const history = [...PROMPT, ...first.tokenIds];
      for (const [what, [ids, params, more]] of Object.entries(attacks(first.params, history))) {
        if (what.startsWith('blocks')) continue;
        expect([what, (await prefill(served, ids, params, more)).status]).toEqual([what, 200]);
        await served.cluster.engine('prefill').serving.releaseHolds('all');
        expect((await served.cluster.stats())[1]!.heldRequests, what).toBe(1);
      }
      // The owner's turn pulls nothing either, but frees the hold.
      await prefill(served, [...history, 7, 8, 9], first.params);
      await expect.poll(async () => (await served.cluster.stats())[1]!.heldRequests).toBe(0);
    });
  });

  it('are freed by a complete read: a second reader gets the same refusal as a stranger', async () => {
    await withServer(failing, {}, async (served) => {
      const first = await turn(served, PROMPT, null);
      const prompt = [...PROMPT, ...first.tokenIds, 7, 8, 9];
      const stranger = await prefill(served, prompt, { ...first.params, remote_request_id: 'guessed' });
      expect((await prefill(served, prompt, first.params)).status).toBe(200);
      const second = await prefill(served, prompt, first.params);
      expect(second).toEqual(stranger);
      expect(second.status).toBe(400);
    });
  });

  it('are pulled up to the first changed token of a rewritten history, and then freed', async () => {
    await withServer(failing, {}, async (served) => {
      const first = await turn(served, PROMPT, null);
      const edited = [...PROMPT.slice(0, 25), 400, ...PROMPT.slice(26), 7, 8, 9];
      const second = await turn(served, edited, first.params);
      expect(second.tokenIds).toEqual(await alone(served, edited));
      expect((await served.cluster.stats())[0]!.externalPrefixCache.hits).toBe(25);
      expect((await inUse(served.cluster)).held).toBe(1);
    });
  });
});

describe('blocks that P holds for D', () => {
  it("are kept from forged requests, which all get the same 400, and serve the owner's turn", async () => {
    await withServer(failing, {}, async (served) => {
      const { params, status } = await prefill(served, PROMPT, MISS, { cache_salt: 'mine' });
      expect(status).toBe(200);
      const refusals = new Set<string>();
      for (const [what, [ids, lie, more]] of Object.entries(attacks(params!, PROMPT))) {
        const answer = await decode(served, ids, lie, { cache_salt: 'mine', ...more });
        expect([what, answer.status]).toEqual([what, 400]);
        refusals.add(JSON.stringify(answer.error));
        expect((await inUse(served.cluster)).held, what).toBe(1);
      }
      expect([...refusals]).toHaveLength(1);
      const right = await decode(served, PROMPT, params!, { cache_salt: 'mine' });
      expect(right.token_ids).toEqual(await alone(served, PROMPT));
    });
  });
});

describe("blocks of the router's own turns", () => {
  it('cannot be read or freed by guessing request ids', async () => {
    await withServer({ ...failing, ...withCache }, {}, async (served) => {
      const body = { prompt: PROMPT, max_tokens: 12, ignore_eos: true, conversation_id: 'victim' };
      const url = `${served.urls.router}/v1/completions`;
      expect((await post(url, body)).status).toBe(200);
      const blocks = Array.from({ length: 4 }, (_, i) => i + 1);
      for (const id of ['victim#1.1-d', 'victim#1.1', 'anonymous-1#1.1-d']) {
        for (const shift of [0, 1, 2, 3]) {
          const params = {
            remote_engine_id: 'decode-0',
            remote_host: 'localhost',
            remote_port: 5601,
            remote_request_id: id,
            remote_block_ids: [blocks.map((block) => block + shift)],
            remote_num_tokens: 40,
            remote_token_ids: OTHER,
          };
          const { status } = await prefill(served, [...OTHER, 7, 8, 9], params);
          expect(status).toBe(400);
        }
      }
      expect((await inUse(served.cluster)).held).toBe(1);
      expect((await turn(served, [...OTHER, 7, 8, 9], null)).tokenIds).toEqual(
        await alone(served, [...OTHER, 7, 8, 9]),
      );
    });
  });
});
