import { createParser, type EventSourceMessage } from 'eventsource-parser';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { generate, withCluster } from './cluster-fixture.ts';
import { inUse, metric, post, withServer } from './server-fixture.ts';

const CHAT = '/v1/chat/completions';

const user = (content: string) => ({ role: 'user' as const, content });

async function readEvents(response: Response): Promise<EventSourceMessage[]> {
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => void events.push(event) });
  const decoder = new TextDecoder();
  for await (const bytes of response.body!) parser.feed(decoder.decode(bytes, { stream: true }));
  return events;
}

describe('clients of the server', () => {
  it('can hold a two-turn chat with the openai client, whose second turn pulls what D generated', async () => {
    await withServer({}, {}, async ({ urls, errors }) => {
      const client = new OpenAI({ baseURL: `${urls.router}/v1`, apiKey: 'none', maxRetries: 0 });
      expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['nano']);
      const ask = { model: 'nano', max_tokens: 24, temperature: 0.9, seed: 5 };
      const first = await client.chat.completions.create({ ...ask, messages: [user('Tell me something.')] });
      const answer = first.choices[0]!.message.content!;
      expect(first.usage!.completion_tokens).toBeGreaterThan(0);
      expect(await metric(urls.prefill, 'vllm:external_prefix_cache_hits_total')).toBe(0);

      // No conversation id is sent: the conversation is found by its history.
      const messages = [
        user('Tell me something.'),
        { role: 'assistant' as const, content: answer },
        user('And?'),
      ];
      const options = { stream: true as const, stream_options: { include_usage: true } };
      const stream = await client.chat.completions.create({ ...ask, ...options, messages });
      let text = '';
      let cached = 0;
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? '';
        cached = chunk.usage?.prompt_tokens_details?.cached_tokens ?? cached;
      }
      expect(text.length).toBeGreaterThan(0);
      const pulled = await metric(urls.prefill, 'vllm:external_prefix_cache_hits_total');
      // All of the first turn except its last token, which never had KV.
      expect(pulled).toBe(first.usage!.total_tokens - 1);
      expect(cached).toBe(pulled);
      expect(errors).toEqual([]);
    });
  });

  it('get errors as the error classes of the openai client', async () => {
    await withServer({}, { apiKey: 'k' }, async ({ urls }) => {
      const baseURL = `${urls.router}/v1`;
      const ask = { model: 'nano', messages: [user('x')] };
      const stranger = new OpenAI({ baseURL, apiKey: 'other', maxRetries: 0 });
      await expect(stranger.chat.completions.create(ask)).rejects.toThrow(OpenAI.AuthenticationError);
      const client = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 });
      await expect(client.chat.completions.create({ ...ask, model: 'gpt' })).rejects.toThrow(
        OpenAI.NotFoundError,
      );
      const wrong = client.chat.completions.create({ ...ask, max_tokens: 100_000 });
      await expect(wrong).rejects.toMatchObject({ status: 400, param: 'max_tokens' });
    });
  });

  it('get one SSE event per token, with the text of the unstreamed answer', async () => {
    await withServer({}, {}, async ({ urls }) => {
      const ask = { prompt: 'Once upon a time', max_tokens: 20, temperature: 1, seed: 9, ignore_eos: true };
      const whole = (await (await post(`${urls.router}/v1/completions`, ask)).json()) as {
        choices: { text: string }[];
      };
      const events = await readEvents(await post(`${urls.router}/v1/completions`, { ...ask, stream: true }));
      expect(events.at(-1)!.data).toBe('[DONE]');
      const chunks = events.slice(0, -1).map(({ data }) => JSON.parse(data));
      expect(chunks.map(({ choices }) => choices[0].text).join('')).toBe(whole.choices[0]!.text);
      expect(chunks).toHaveLength(20);
    });
  });

  it('can end answers with stop strings; the next turn continues from the text the client saw', async () => {
    await withServer({}, {}, async ({ urls, cluster }) => {
      const ask = { max_tokens: 40, temperature: 1, seed: 3, ignore_eos: true };
      const url = `${urls.router}${CHAT}`;
      const free = (await (await post(url, { ...ask, messages: [user('Hi')] })).json()) as Chat;
      const text = free.choices[0]!.message.content;
      const stop = [...text].slice(9, 12).join('');
      const before = text.slice(0, text.indexOf(stop));
      const stopped = (await (
        await post(url, { ...ask, messages: [user('Hi')], stop, conversation_id: 'c' })
      ).json()) as Chat;
      expect(stopped.choices[0]).toMatchObject({
        message: { content: before },
        finish_reason: 'stop',
        stop_reason: stop,
      });
      const messages = [user('Hi'), { role: 'assistant', content: before }, user('Go on')];
      const next = (await (await post(url, { ...ask, messages, conversation_id: 'c' })).json()) as Chat;
      // A fresh conversation with the same messages gets the same answer.
      const fresh = (await (await post(url, { ...ask, messages, cache_salt: 'other' })).json()) as Chat;
      expect(next.choices[0]!.message.content).toBe(fresh.choices[0]!.message.content);
      expect(next.usage.prompt_tokens).toBe(fresh.usage.prompt_tokens);
      expect(next.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan([...before].length);
      await expect.poll(async () => (await cluster.stats()).map(({ running }) => running)).toEqual([0, 0]);
    });
  });
});

interface Chat {
  choices: { message: { content: string }; finish_reason: string; stop_reason: unknown }[];
  usage: { prompt_tokens: number; total_tokens: number; prompt_tokens_details: { cached_tokens: number } };
}

describe("the operator's port", () => {
  it('serves cache queries, metrics and events of every engine, and client ports answer 404', async () => {
    const prefill = { numBlocks: 128, enablePrefixCaching: true };
    await withServer({ prefill }, {}, async ({ urls, errors }) => {
      const prompt = 'A prompt of more than one block, to be looked up';
      await (await post(`${urls.router}/v1/completions`, { prompt, max_tokens: 4 })).text();
      const found = async (name: string) => {
        const answer = await post(`${urls.admin}/${name}/kv/query`, { prompt });
        const { engines } = (await answer.json()) as { engines: { engine_id: string; hit_tokens: number }[] };
        return engines.map(({ engine_id, hit_tokens }) => [engine_id, hit_tokens > 0]);
      };
      const [p, d] = [
        ['prefill-0', true],
        ['decode-0', true],
      ];
      expect(await found('prefill-0')).toEqual([p]);
      expect(await found('decode-0')).toEqual([d]);
      expect(await found('router')).toEqual([p, d]);
      expect(await metric(`${urls.admin}/prefill-0`, 'vllm:prompt_tokens_total')).toBe(prompt.length);
      const events = await fetch(`${urls.admin}/prefill-0/kv/events?from=0`);
      const reader = events.body!.getReader();
      expect(new TextDecoder().decode((await reader.read()).value)).toContain('BlockStored');
      await reader.cancel();
      for (const url of [urls.router, urls.prefill, urls.decode]) {
        expect((await post(`${url}/kv/query`, { prompt })).status).toBe(404);
        expect((await fetch(`${url}/kv/events`)).status).toBe(404);
        expect((await post(`${url}/reset_prefix_cache`, {})).status).toBe(404);
      }
      expect(errors).toEqual([]);
    });
  });

  it('does not open on a public address without --admin-key', async () => {
    await expect(withServer({}, { adminHost: '0.0.0.0' }, async () => {})).rejects.toThrow('--admin-key');
  });
});

describe('a proxy that overwrites remote_host', () => {
  it('can pull through any loopback name, and gets a 400 for an unknown host', async () => {
    await withServer({}, {}, async ({ urls, cluster, errors }) => {
      const ask = {
        prompt: 'A prompt of some blocks, that P computes and D pulls from it',
        ignore_eos: true,
      };
      const from = async (url: string, max_tokens: number, kv_transfer_params: object) => {
        const response = await post(`${url}/v1/completions`, { ...ask, max_tokens, kv_transfer_params });
        return { status: response.status, ...((await response.json()) as { kv_transfer_params: object }) };
      };
      const offered = await from(urls.prefill, 1, { do_remote_decode: true });
      const renamed = (remote_host: string) => ({ ...offered.kv_transfer_params, remote_host });
      expect((await from(urls.decode, 4, renamed('elsewhere'))).status).toBe(400);
      const second = await from(urls.prefill, 1, { do_remote_decode: true });
      const pulled = await from(urls.decode, 4, { ...second.kv_transfer_params, remote_host: '127.0.0.1' });
      expect(pulled.status).toBe(200);
      expect(await metric(urls.decode, 'vllm:external_prefix_cache_hits_total')).toBeGreaterThan(0);
      const next = { ...pulled.kv_transfer_params, do_remote_decode: true, do_remote_prefill: false };
      expect((await from(urls.prefill, 1, { ...next, remote_host: '::1' })).status).toBe(200);
      expect((await cluster.stats()).map(({ running }) => running)).toEqual([0, 0]);
      expect(errors).toEqual([]);
    });
  });
});

describe('clients that disconnect', () => {
  it('leave no block in use when 20 do so in mid-stream', async () => {
    await withServer({ maxNumSeqs: 8 }, {}, async ({ urls, cluster, errors }) => {
      await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const abort = new AbortController();
          const prompt = `Client ${i} says hello`;
          const ask = { prompt, conversation_id: `c${i}`, max_tokens: 300, ignore_eos: true, stream: true };
          const response = await post(`${urls.router}/v1/completions`, ask, { signal: abort.signal });
          const reader = response.body!.getReader();
          for (let chunk = 0; chunk < 1 + (i % 4); chunk++) await reader.read();
          abort.abort();
        }),
      );
      // If an answer completes before the disconnect is noticed, D holds it for a next turn; end those conversations.
      const free = async () => {
        for (let i = 0; i < 20; i++) await cluster.endConversation(`c${i}`);
        return inUse(cluster);
      };
      await expect.poll(free).toEqual({ blocks: 0, held: 0 });
      expect(errors).toEqual([]);
    });
  });

  it('leave no block in use when they were waiting for an unstreamed answer', async () => {
    await withServer({}, {}, async ({ urls, cluster }) => {
      const abort = new AbortController();
      const ask = { prompt: 'x'.repeat(200), max_tokens: 700, ignore_eos: true };
      const answer = post(`${urls.decode}/v1/completions`, ask, { signal: abort.signal });
      await expect.poll(async () => (await inUse(cluster)).blocks).toBeGreaterThan(0);
      abort.abort();
      await expect(answer).rejects.toThrow();
      await expect.poll(() => inUse(cluster)).toEqual({ blocks: 0, held: 0 });
    });
  });
});

describe('an engine that fails', () => {
  for (const role of ['prefill', 'decode'] as const) {
    it(`in role ${role} does not change the tokens of a running turn, and is revived`, async () => {
      await withServer({}, {}, async ({ urls, cluster }) => {
        const url = `${urls.router}/v1/completions`;
        const ask = {
          prompt: 'A long answer, please',
          max_tokens: 120,
          temperature: 1,
          seed: 2,
          ignore_eos: true,
        };
        const text = async (response: Response) => {
          const body = (await response.json()) as { choices: { text: string }[]; error?: object };
          expect(body.error).toBeUndefined();
          return body.choices[0]!.text;
        };
        const expected = await text(await post(url, ask));
        const under = post(url, { ...ask, cache_salt: 'again' });
        await expect
          .poll(async () => (await cluster.stats().catch(() => [])).some(({ running }) => running > 0))
          .toBe(true);
        await cluster.engine(role).lab.loseDevice();
        expect(await text(await under)).toBe(expected);
        // The answer may arrive before the dead engine is noticed.
        await expect.poll(() => cluster.engine(role).engineId).toBe(`${role}-0.2`);
        await expect.poll(async () => (await fetch(`${urls[role]}/health`)).status).toBe(200);
        expect(await text(await post(url, ask))).toBe(expected);
      });
    });
  }
});

describe('many concurrent conversations', () => {
  it('of two turns each, 64 over HTTP, get the same answers as through the library', async () => {
    const prompts = Array.from({ length: 64 }, (_, i) => `Conversation ${i}: tell me about ${i * 37}.`);
    const sampling = { maxTokens: 12, temperature: 1, seed: 11, ignoreEos: true };
    // D has room for all, so that it drops no hold before its second turn comes.
    const decode = { numBlocks: 512, enablePrefixCaching: true };
    const options = { decode, maxNumSeqs: 16, maxNumBatchedTokens: 256 };
    const expected = await withCluster(options, async (cluster) => {
      const answers: string[] = [];
      for (const content of prompts) {
        const messages = [user(content)];
        const first = await generate(cluster, { conversationId: content, messages, sampling });
        const more = [...messages, { role: 'assistant', content: first.result.text }, user('And then?')];
        const second = await generate(cluster, { conversationId: content, messages: more, sampling });
        answers.push(first.result.text, second.result.text);
        await cluster.endConversation(content);
      }
      return answers;
    });
    await withServer(options, {}, async ({ urls, errors }) => {
      const ask = { max_tokens: 12, temperature: 1, seed: 11, ignore_eos: true };
      const say = async (messages: object[], conversation_id: string) => {
        const response = await post(`${urls.router}${CHAT}`, { ...ask, messages, conversation_id });
        expect(response.status).toBe(200);
        return ((await response.json()) as Chat).choices[0]!.message.content;
      };
      const answers = await Promise.all(
        prompts.map(async (content) => {
          const first = await say([user(content)], content);
          const more = [user(content), { role: 'assistant', content: first }, user('And then?')];
          return [first, await say(more, content)];
        }),
      );
      expect(answers.flat()).toEqual(expected);
      expect(errors).toEqual([]);
      // One READ for each second turn.
      expect(await metric(urls.prefill, 'vllm:nixl_num_descriptors_count')).toBe(64);
      expect(await metric(urls.prefill, 'vllm:external_prefix_cache_hits_total')).toBeGreaterThan(64 * 16);
    });
  }, 240_000);
});

describe('stopping the server', () => {
  it('lets requests finish within the grace period, then ends streams with a 503 error and closes the ports', async () => {
    // Room for an answer that no adapter can finish within the grace period.
    const decode = { numBlocks: 520, enablePrefixCaching: true };
    await withServer({ maxModelLen: 8192, decode }, {}, async ({ urls, server }) => {
      const ask = { prompt: 'Take your time', ignore_eos: true };
      const short = post(`${urls.router}/v1/completions`, { ...ask, max_tokens: 30 });
      const long = post(`${urls.decode}/v1/completions`, { ...ask, max_tokens: 7000, stream: true });
      const streaming = await long;
      await server.stop(1500);
      expect((await short).status).toBe(200);
      const events = await readEvents(streaming);
      expect(JSON.parse(events.at(-2)?.data ?? events.at(-1)!.data)).toMatchObject({ error: { code: 503 } });
      await expect(fetch(`${urls.router}/health`)).rejects.toThrow();
    });
  });
});
