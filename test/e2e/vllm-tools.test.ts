/** What vLLM's proxies and multi-turn benchmark send, field by field, and what they read from the answers. */
import { describe, expect, it } from 'vitest';
import { inUse, metric, post, withServer } from './server-fixture.ts';

type Json = Record<string, unknown>;

const MISS = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

interface Turn {
  text: string;
  params: Json | null;
  prefillParams: Json;
}

/** Splits at every Unicode line break, as Python's iter_lines and str.splitlines do. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: Python splits at these
const pythonLines = (text: string): string[] => text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/);

/** One turn of disagg_proxy_multiturn.py: P first, then D, always streamed. `cached`: D's parameters of the last turn. */
async function multiTurn(
  urls: { prefill: string; decode: string },
  body: Json,
  cached: Json | null,
): Promise<Turn> {
  const { conversation_id: _, ...request } = body;
  const headers = { 'X-Request-Id': crypto.randomUUID() };
  const toPrefill: Json = {
    ...request,
    kv_transfer_params: cached
      ? { ...cached, do_remote_decode: true, do_remote_prefill: false, remote_host: 'localhost' }
      : MISS,
    stream: false,
    max_tokens: 1,
  };
  for (const key of ['max_completion_tokens', 'min_tokens', 'stream_options']) delete toPrefill[key];
  const path = '/v1/chat/completions';
  const prefilled = await post(urls.prefill + path, toPrefill, { headers });
  expect(prefilled.status).toBe(200);
  const answer = (await prefilled.json()) as { id: string; kv_transfer_params: Json };
  expect(answer.id).toBe(`chatcmpl-${headers['X-Request-Id']}`);
  const prefillParams = answer.kv_transfer_params;
  const toDecode = {
    ...request,
    stream: true,
    kv_transfer_params: { ...prefillParams, remote_host: 'localhost' },
  };
  const decoded = await post(urls.decode + path, toDecode, { headers });
  expect(decoded.status).toBe(200);
  expect(decoded.headers.get('Content-Type')).toMatch(/^text\/event-stream/);
  const lines = pythonLines(await decoded.text()).filter((line) => line !== '');
  expect(lines.at(-1)).toBe('data: [DONE]');
  let text = '';
  let params: Json | null = null;
  for (const line of lines.slice(0, -1)) {
    expect(line.startsWith('data: ')).toBe(true);
    const chunk = JSON.parse(line.slice(6)) as {
      choices: { delta: { content?: unknown }; finish_reason: string | null }[];
      kv_transfer_params?: Json;
    };
    // Python's "" + None is a TypeError, so content must be a string wherever it appears.
    const { delta } = chunk.choices[0]!;
    if ('content' in delta) expect(delta.content).toBeTypeOf('string');
    text += (delta.content as string) ?? '';
    if (chunk.kv_transfer_params) {
      params = { ...chunk.kv_transfer_params, remote_host: 'localhost' };
      // The proxy logs len(remote_block_ids[0]).
      expect(Array.isArray((chunk.kv_transfer_params.remote_block_ids as unknown[])[0])).toBe(true);
      expect(chunk.choices[0]!.finish_reason).not.toBeNull();
    }
  }
  return { text, params, prefillParams };
}

const ask = (messages: object[]): Json => ({
  model: 'nano',
  messages,
  stream: true,
  stream_options: { include_usage: false },
  min_tokens: 24,
  max_tokens: 24,
  temperature: 0.7,
  seed: 1,
});

describe('disagg_proxy_multiturn.py', () => {
  it("gets parameters of vLLM's shape, and its second turn pulls from D once", async () => {
    await withServer({}, {}, async ({ urls, cluster }) => {
      const pulled = () => metric(urls.prefill, 'vllm:external_prefix_cache_hits_total');
      const messages: object[] = [{ role: 'user', content: 'What is the tallest mountain?' }];
      const first = await multiTurn(urls, { ...ask(messages), conversation_id: 'CONV_ID_1' }, null);
      expect(first.prefillParams).toMatchObject({
        do_remote_prefill: true,
        do_remote_decode: false,
        remote_block_ids: [expect.any(Array)],
        remote_engine_id: 'prefill-0',
        remote_request_id: expect.stringMatching(/^chatcmpl-/),
        remote_host: expect.any(String),
        remote_port: expect.any(Number),
        tp_size: 1,
        remote_blocks_expiry_time: null,
      });
      expect(first.params).toMatchObject({
        do_remote_prefill: false,
        do_remote_decode: true,
        remote_engine_id: 'decode-0',
        remote_blocks_expiry_time: expect.any(Number),
      });
      const { prefillParams, params } = first;
      expect(params!.remote_num_tokens).toBe((prefillParams.remote_num_tokens as number) + 24 - 1);
      expect(await pulled()).toBe(0);
      messages.push({ role: 'assistant', content: first.text }, { role: 'user', content: 'And the next?' });
      const second = await multiTurn(urls, { ...ask(messages), conversation_id: 'CONV_ID_1' }, params);
      expect(await pulled()).toBe(params!.remote_num_tokens);
      // Blocks are freed once read: the same parameters again fetch nothing, and P computes.
      const failed = () => metric(urls.prefill, 'vllm:nixl_num_failed_transfers_total');
      expect(await failed()).toBe(0);
      const again = await multiTurn(urls, ask(messages), params);
      expect(again.text).toBe(second.text);
      expect(await failed()).toBe(1);
      expect((await inUse(cluster)).held).toBe(2);
    });
  });

  it('pulls a rewritten history up to the first change, and gets the answer of a cold run', async () => {
    await withServer({}, {}, async ({ urls }) => {
      const messages: object[] = [{ role: 'user', content: 'Count with me.' }];
      const first = await multiTurn(urls, ask(messages), null);
      const edited = `${first.text.slice(0, 10)}!${first.text.slice(11)}`;
      const next = [...messages, { role: 'assistant', content: edited }, { role: 'user', content: 'Go on.' }];
      const second = await multiTurn(urls, ask(next), first.params);
      expect(await metric(urls.prefill, 'vllm:external_prefix_cache_hits_total')).toBe(
        (first.prefillParams.remote_num_tokens as number) + 10,
      );
      expect(second.text).toBe((await multiTurn(urls, ask(next), null)).text);
    });
  });

  it('never pulls when the stream has no parameters, as in stock vLLM', async () => {
    await withServer({}, { streamingKvParams: false }, async ({ urls }) => {
      expect((await multiTurn(urls, ask([{ role: 'user', content: 'Hello' }]), null)).params).toBeNull();
    });
  });

  it('gets a 400 that names the invalid field of its parameters, and the hold they name is freed', async () => {
    await withServer({}, {}, async ({ urls, cluster }) => {
      const { params } = await multiTurn(urls, ask([{ role: 'user', content: 'Secret' }]), null);
      const url = `${urls.prefill}/v1/completions`;
      const refusal = async (changed: Json) => {
        const kv_transfer_params = { ...params, ...changed };
        const response = await post(url, { prompt: 'Secret', max_tokens: 1, kv_transfer_params });
        const { error } = (await response.json()) as { error: { param: string } };
        return [response.status, error?.param];
      };
      const field = (key: string) => [400, `kv_transfer_params.${key}`];
      // A refused request with the wrong tokens frees nothing.
      const others = { remote_token_ids: [1, 2, 3], do_remote_prefill: true };
      expect(await refusal(others)).toEqual(field('do_remote_decode'));
      expect((await inUse(cluster)).held).toBe(1);
      expect(await refusal({ remote_engine_id: 'prefill-0' })).toEqual(field('remote_engine_id'));
      expect(await refusal({ remote_engine_id: null })).toEqual(field('remote_engine_id'));
      expect(await refusal({ remote_port: 9 })).toEqual(field('remote_port'));
      expect(await refusal({ remote_block_ids: [1] })).toEqual(field('remote_block_ids.0'));
      expect(await refusal({ do_remote_prefill: true })).toEqual(field('do_remote_decode'));
      const routed = { prompt: 'x', kv_transfer_params: params };
      expect((await post(`${urls.router}/v1/completions`, routed)).status).toBe(400);
      // The owner will not come back for it: vLLM's clean-up after a rejection.
      await expect.poll(async () => (await inUse(cluster)).held).toBe(0);
    });
  });
});

describe('toy_proxy_server.py', () => {
  it('hands over from P to D with its own fields and headers, null fields included', async () => {
    await withServer({}, {}, async ({ urls }) => {
      for (const [path, prompt] of [
        ['/v1/completions', { prompt: 'The sky is' }],
        [
          '/v1/chat/completions',
          { messages: [{ role: 'user', content: 'The sky is' }], max_completion_tokens: 9 },
        ],
      ] as const) {
        const body: Json = { model: 'nano', max_tokens: 9, temperature: 0, ignore_eos: true, ...prompt };
        const headers = { Authorization: 'Bearer None', 'X-Request-Id': crypto.randomUUID() };
        const toPrefill: Json = { ...body, kv_transfer_params: MISS, stream: false, max_tokens: 1 };
        if ('max_completion_tokens' in body) toPrefill.max_completion_tokens = 1;
        const prefilled = (await (await post(urls.prefill + path, toPrefill, { headers })).json()) as {
          kv_transfer_params: Json;
        };
        const toDecode = {
          ...body,
          min_tokens: null,
          min_completion_tokens: null,
          kv_transfer_params: prefilled.kv_transfer_params,
        };
        const decoded = (await (await post(urls.decode + path, toDecode, { headers })).json()) as {
          choices: Json[];
          usage: Json;
        };
        const alone = (await (await post(urls.decode + path, body)).json()) as { choices: Json[] };
        expect(decoded.choices).toEqual(alone.choices);
        expect(decoded.usage.completion_tokens).toBe(9);
        const promptTokens = decoded.usage.prompt_tokens as number;
        // D pulls everything and recomputes the last token.
        expect(decoded.usage.prompt_tokens_details).toEqual({ cached_tokens: promptTokens - 1 });
      }
    });
  });
});

describe('benchmark_serving_multi_turn.py', () => {
  for (const sends of [true, false]) {
    it(`pulls on every later turn ${sends ? 'with' : 'without'} --send-conversation-id`, async () => {
      await withServer({}, {}, async ({ urls }) => {
        // The tool asks for this first, and exits if it cannot connect.
        expect((await fetch(`${urls.router}/version`)).status).toBe(200);
        const models = (await (await fetch(`${urls.router}/v1/models`)).json()) as { data: Json[] };
        expect(models.data[0]).toMatchObject({ id: 'nano', max_model_len: 1024 });
        const messages: Json[] = [];
        let expected = 0;
        for (let turn = 0; turn < 3; turn++) {
          messages.push({ role: 'user', content: `${turn} is a nice number... rewrite the following` });
          const body = { ...ask(messages), ...(sends ? { conversation_id: 'CONV_ID_7' } : {}) };
          const headers: Record<string, string> = sends ? { 'X-Session-ID': 'CONV_ID_7' } : {};
          const response = await post(`${urls.router}/v1/chat/completions`, body, { headers });
          expect(response.status).toBe(200);
          const contents: string[] = [];
          let done = false;
          for (const raw of (await response.text()).split('\n')) {
            const line = raw.trim();
            if (line === '') continue;
            const data = line.replace(/^data: /, '');
            if (data === '[DONE]') done = true;
            else contents.push(JSON.parse(data).choices[0].delta.content ?? '');
          }
          const chunks = contents.filter((content) => content !== '');
          expect([done, chunks.length]).toEqual([true, 24]);
          messages.push({ role: 'assistant', content: chunks.join('') });
          const hits = await metric(urls.prefill, 'vllm:external_prefix_cache_hits_total');
          expect(hits > expected).toBe(turn > 0);
          expected = hits;
        }
      });
    });
  }
});
