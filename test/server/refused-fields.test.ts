/** Unsupported fields that would change the answer are refused by name; those that ask for nothing are accepted. */
import { connect } from 'node:net';
import { serve } from '@hono/node-server';
import { describe, expect, test } from 'vitest';
import { createLog } from '../../src/server/http/log.ts';
import { StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

const completion = { prompt: 'a', max_tokens: 2 };
const generate = (more: object) => ({ token_ids: [1], sampling_params: { max_tokens: 2, ...more } });

const refused: [string, unknown][] = [
  ['structured_outputs', { choice: ['a', 'b'] }],
  ['guided_json', {}],
  ['guided_regex', 'a+'],
  ['guided_choice', ['a']],
  ['guided_grammar', 'root ::= "a"'],
  ['response_format', { type: 'json_object' }],
  ['tools', [{}]],
  ['tool_choice', 'required'],
  ['tool_choice', { type: 'function', function: { name: 'f' } }],
  ['functions', [{ name: 'f' }]],
  ['function_call', { name: 'f' }],
  ['truncate_prompt_tokens', 4],
  ['prompt_embeds', 'AAAA'],
  ['best_of', 2],
  ['logit_bias', { 1: -100 }],
  ['suffix', 'x'],
  ['echo', true],
  ['spaces_between_special_tokens', false],
  ['min_p', 0.1],
  ['chat_template', '{{ messages }}'],
  ['chat_template_kwargs', { enable_thinking: false }],
  ['priority', 3],
  ['reasoning_effort', 'high'],
  ['reasoning_effort', 'none'],
  ['thinking_token_budget', 100],
  ['repetition_detection', { max_pattern_size: 8, min_count: 3 }],
  ['logprob_token_ids', [1, 2]],
  ['trace_decode_token_ids', [1, 2]],
  ['watermarking', true],
];

describe('an unsupported field', () => {
  test.each(refused)('is refused by name: %s %j', async (field, value) => {
    for (const kind of ['router', 'engine'] as const) {
      const stub = new StubService(kind);
      for (const [path, body, param] of [
        [CHAT, { ...hello, [field]: value }, field],
        ['/v1/completions', { ...completion, [field]: value }, field],
        ['/inference/v1/generate', generate({ [field]: value }), `sampling_params.${field}`],
      ] as const) {
        const response = await stubApp(stub).request(path, post(body));
        const { error } = (await response.json()) as { error: { param: string } };
        expect([path, response.status, error.param]).toEqual([path, 400, param]);
      }
      expect(stub.requests).toEqual([]);
    }
  });

  test('is refused if it is detokenize: false, except where no answer has text', async () => {
    const asked = { detokenize: false };
    const app = stubApp(new StubService());
    for (const [path, body] of [
      [CHAT, { ...hello, ...asked }],
      ['/v1/completions', { ...completion, ...asked }],
    ] as const) {
      const response = await app.request(path, post(body));
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: 'detokenize' } });
    }
    expect((await app.request('/inference/v1/generate', post(generate(asked)))).status).toBe(200);
  });

  test.each<[string, unknown]>([
    ['tool_calls', [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]],
    ['function_call', { name: 'f', arguments: '{}' }],
    ['reasoning', 'let me think'],
    ['reasoning_content', 'let me think'],
    ['audio', { id: 'a' }],
  ])('is refused in a message too: %s %j', async (field, value) => {
    const messages = [{ role: 'assistant', content: null, [field]: value }, ...hello.messages];
    const app = stubApp(new StubService());
    for (const path of [CHAT, '/tokenize']) {
      const response = await app.request(path, post({ ...hello, messages }));
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { param: `messages.0.${field}` } });
    }
  });

  test.each<[string, unknown]>([
    ['features', { mm_hashes: {} }],
    ['priority', 1],
  ])('is refused by /inference/v1/generate outside sampling_params: %s', async (field, value) => {
    const body = { ...generate({}), [field]: value };
    const response = await stubApp(new StubService()).request('/inference/v1/generate', post(body));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: field } });
  });

  test('is refused by /tokenize too', async () => {
    const app = stubApp(new StubService());
    const { messages } = hello;
    expect((await app.request('/tokenize', post({ messages, tools: [{}] }))).status).toBe(400);
  });
});

test('unsupported fields with values that ask for nothing are accepted', async () => {
  const idle = {
    ...{
      tools: [],
      tool_choice: 'auto',
      functions: [],
      bad_words: [],
      detokenize: true,
      spaces_between_special_tokens: true,
      logit_bias: {},
      suffix: '',
      echo: false,
    },
    ...{ response_format: { type: 'text' }, best_of: 1, n: 1, repetition_penalty: 1.0, guided_json: null },
    ...{ continue_final_message: false, add_generation_prompt: true, chat_template_kwargs: {}, priority: 0 },
    ...{ reasoning_effort: null, thinking_token_budget: -1, repetition_detection: {}, watermarking: false },
    ...{ user: 'me', service_tier: 'auto', parallel_tool_calls: true, unheard_of: 1 },
  };
  const stream_options = { include_usage: true, continuous_usage_stats: false };
  const app = stubApp(new StubService());
  expect((await app.request(CHAT, post({ ...hello, ...idle, stream: true, stream_options }))).status).toBe(
    200,
  );
});

test("an answer can be sent back as the OpenAI SDK's message has it", async () => {
  const nothing = { refusal: null, annotations: [], audio: null, function_call: null, reasoning: null };
  const answers = [null, []].map((tool_calls) => ({
    ...{ role: 'assistant', content: 'hi', ...nothing, tool_calls },
  }));
  const messages = [...hello.messages, ...answers, ...hello.messages];
  expect((await stubApp(new StubService()).request(CHAT, post({ ...hello, messages }))).status).toBe(200);
});

test.each([null, {}])('empty stream_options need no stream: %j', async (stream_options) => {
  const app = stubApp(new StubService());
  expect((await app.request(CHAT, post({ ...hello, stream: false, stream_options }))).status).toBe(200);
});

test('the error for 65 stop strings names the limit of 64', async () => {
  const response = await stubApp(new StubService()).request(
    CHAT,
    post({ ...hello, stop: Array(65).fill('x') }),
  );
  const { error } = (await response.json()) as { error: object };
  expect(error).toMatchObject({ param: 'stop', message: expect.stringMatching(/at most 64 strings/) });
});

test.each(['Content-Length: 100', 'Transfer-Encoding: chunked'])(
  'a client that disconnects during its upload (%s) is logged in one line, with status 499',
  async (length) => {
    const lines: string[] = [];
    const app = stubApp(new StubService(), { log: createLog('text', (line) => void lines.push(line)) });
    const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 });
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    const socket = connect(port, '127.0.0.1');
    const head = `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
    const arrived = new Promise((resolve) => server.once('request', resolve));
    socket.write(`${head}3\r\n{"a\r\n`);
    await arrived;
    socket.destroy();
    await expect.poll(() => lines.length).toBe(1);
    expect(lines[0]).toMatch(/ 499 /);
    server.close();
  },
);
