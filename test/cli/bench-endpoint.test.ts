import { afterEach, describe, expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { EndpointTarget } from '../../src/lab/multiturn/endpoint-target.ts';
import {
  type Answer,
  bench,
  benchIn,
  benchWorld,
  endServer,
  serve,
  silent,
  streamed,
  unended,
} from './endpoint-server.ts';

afterEach(endServer);

describe('kvferry bench --endpoint', () => {
  test('measures a server as a client sees it, and sends its answers back as history', async () => {
    const { url, asked } = await serve(streamed);
    const { code, report, world } = await bench(`${url}/v1/`);
    expect(world.err()).not.toMatch(/bug/);
    expect(code).toBe(0);
    expect(report!.target).toMatchObject({ kind: 'endpoint', url, model: 'served-model' });
    const mode = report!.modes.server!;
    expect(mode).toMatchObject({ requests: 4, failed_requests: 0, output_tokens: 16, prompt_tokens: 200 });
    expect(mode).toMatchObject({ cached_tokens: 128, computed_tokens: 72 });
    // A server's cached tokens may be pulled ones.
    expect(mode).toMatchObject({ local_hit_tokens: null, pulled_tokens: null });
    const [sample] = Object.values(report!.experiments)[0]!.modes.server!.samples;
    expect(sample).toMatchObject({ cached_tokens: 32, local_hit_tokens: null, computed_tokens: 18 });
    expect(world.out()).toMatch(/cached +computed/);
    expect(world.out()).toMatch(/server +128 +72/);
    expect(world.out()).not.toMatch(/pulled/);
    expect(mode.table.output_num_chunks).toMatchObject({ mean: 3 });
    expect(mode.table.ttft_ms.min).toBeGreaterThan(0);
    expect(mode.itl_ms?.count).toBe(12);
    expect(asked.map(({ path }) => path)).toEqual(Array(4).fill('/v1/chat/completions'));
    expect(asked[0]!.body).toMatchObject({
      model: 'served-model',
      stream: true,
      min_tokens: 4,
      max_tokens: 4,
    });
    expect(asked[0]!.body).not.toHaveProperty('conversation_id');
    const messages = asked[1]!.body.messages as { role: string; content: string }[];
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(messages[1]!.content).toBe(' of of of of');
    expect(messages[0]!.content.split(' ')).toHaveLength(11);
    expect(world.clusters).toHaveLength(0);
    for (const line of world.out().split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
  });

  test('applies --send-conversation-id, --model and --token-ids to requests', async () => {
    const { url, asked } = await serve(streamed);
    const options = ['--send-conversation-id', '--model', 'mine', '--token-ids', '--tokenizer', 'tiny'];
    const { code } = await bench(url, ...options);
    expect(code).toBe(0);
    expect(asked[0]).toMatchObject({ path: '/v1/completions', headers: { 'x-session-id': 'CONV_ID_0' } });
    expect(asked[0]!.body).toMatchObject({ model: 'mine', conversation_id: 'CONV_ID_0' });
    const [first, second] = asked.map(({ body }) => body.prompt as number[]);
    expect(first).toHaveLength(11);
    expect(second!.slice(0, 11)).toEqual(first);
    // The answer's twelve characters, one token each, and five new ids.
    expect(second).toHaveLength(11 + 12 + 5);
    // History is built from the answer's text.
    expect(asked[0]!.body).toMatchObject({ skip_special_tokens: false });
  });

  test.each<[string, Answer, RegExp]>([
    [
      'an error status',
      (_, response) => response.writeHead(500).end('no room'),
      /the server answered 500: no room/,
    ],
    [
      'JSON in place of a stream',
      (_, r) => r.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
      /wanted text\/event-stream/,
    ],
    [
      'a stream without [DONE]',
      (_, r) => r.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {"choices":[]}\n\n'),
      /without data: \[DONE\]/,
    ],
    [
      'an empty answer',
      (_, r) => r.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: [DONE]\n\n'),
      /the answer has no text/,
    ],
    [
      'an error in the stream',
      (_, r) =>
        r
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end('data: {"error":{"message":"lost"}}\n\n'),
      /the server reported: .*lost/,
    ],
    [
      "an error in older vLLM's format, after which the stream ends normally,",
      (_, r) =>
        r
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end(
            'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"object":"error","message":"lost"}\n\ndata: [DONE]\n\n',
          ),
      /the server reported: .*lost/,
    ],
    [
      'a stream event that is not JSON',
      (_, r) => r.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {oh\n\n'),
      /not JSON: \{oh/,
    ],
    ['a connection that breaks', (_, r) => r.destroy(), /fetch failed|terminated|closed/],
  ])('%s fails the request', async (_, answer, message) => {
    const { url } = await serve(answer);
    const { code, world } = await bench(url);
    expect(code).toBe(1);
    expect(world.err()).toMatch(/no request was answered/);
    expect(world.err()).toMatch(message);
  });

  /** One event for each name, with a token in the field of that name in `delta`. */
  const inFields =
    (names: readonly string[], end = '\n\n'): Answer =>
    (_, response) => {
      const events = names.map(
        (name) => `data: ${JSON.stringify({ choices: [{ delta: { [name]: ' of' } }] })}\n\n`,
      );
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`${events.join('')}data: [DONE]${end}`);
    };

  test.each([
    ['some of the tokens', ['reasoning', 'reasoning', 'content', 'content'], ' of of'],
    ['all of the tokens, in the older field', Array(4).fill('reasoning_content'), ''],
  ])('reasoning counts as tokens but is not part of the answer: %s', async (_, names, answer) => {
    const { url, asked } = await serve(inFields(names));
    const { code, report } = await bench(url);
    expect(code).toBe(0);
    expect(report!.modes.server!.table).toMatchObject({
      output_num_tokens: { mean: 4 },
      output_num_chunks: { mean: 3 },
    });
    expect(asked[1]!.body.messages).toMatchObject([{}, { role: 'assistant', content: answer }, {}]);
  });

  test('needs no empty line after the last line of a stream', async () => {
    const { url } = await serve(inFields(Array(4).fill('content'), '\n'));
    const { code, report } = await bench(url);
    expect([code, report!.modes.server!.requests]).toEqual([0, 4]);
  });

  test('times an answer until its last event, not until the server closes the stream', async () => {
    let clock = 0;
    const body = [
      'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
      'data: {"choices":[{"delta":{"content":"b"}}]}\n\ndata: [DONE]\n\n',
      ': a proxy that counts and logs\n\n',
    ];
    const target = new EndpointTarget({
      url: 'http://h',
      model: 'm',
      apiKey: null,
      sendConversationId: false,
      tokenIds: false,
      tokenizer: null,
      temperature: 0,
      seed: 0,
      timeoutMs: 60_000,
      now: () => clock,
      fetch: async () =>
        new Response(
          new ReadableStream(
            {
              pull(controller) {
                const part = body.shift();
                clock += 100;
                if (part === undefined) controller.close();
                else controller.enqueue(new TextEncoder().encode(part));
              },
            },
            { highWaterMark: 0 },
          ),
          { headers: { 'content-type': 'text/event-stream' } },
        ),
    });
    const answered = await target.send({
      conversationId: 'c',
      turn: 1,
      prompt: { kind: 'text', messages: [{ role: 'user', content: 'a' }] },
      minTokens: 2,
      maxTokens: 2,
      auditor: null,
      signal: new AbortController().signal,
    });
    expect(answered).toMatchObject({ ttftMs: 100, latencyMs: 200, gapsMs: [100] });
  });

  test('says that a request refused with Retry-After is not sent again', async () => {
    let count = 0;
    const { url } = await serve((asked, response) =>
      count++ === 0 ? response.writeHead(503, { 'Retry-After': '1' }).end('full') : streamed(asked, response),
    );
    const { report } = await bench(url);
    const [error] = report!.modes.server!.errors!;
    expect(error!.message).toMatch(
      /^the server answered 503: full \(with Retry-After; .* not sent again: use/,
    );
  });

  test('counts failed requests, continues with the others, and exits as kvferry report does', async () => {
    let count = 0;
    const { url } = await serve((asked, response) =>
      count++ === 0 ? response.writeHead(503).end('full') : streamed(asked, response),
    );
    const { code, report, world } = await bench(url);
    expect(code).toBe(1);
    const again = await main(['report', 'out.json'], world.deps);
    expect(again).toBe(1);
    expect(world.out()).toContain('FAILED: every request was answered: 1 request failed');
    expect(report!.modes.server).toMatchObject({
      requests: 2,
      failed_requests: 1,
      errors: [{ message: 'the server answered 503: full', count: 1 }],
    });
    expect(world.out()).toContain('1 x the server answered 503: full');
  });

  test('writes a page that omits what the server did not report', async () => {
    const { url } = await serve(streamed);
    const { world } = await bench(url, '--html', 'out.html');
    const page = world.files.get('out.html')!;
    expect(page).toContain('every request was answered');
    expect(page).not.toContain('compiled');
    expect(page).toContain('of the server');
    expect(page).not.toContain('of the server (');
  });

  test('ends an answer at [DONE], even if the server keeps the connection open', async () => {
    const { url } = await serve(unended);
    const { code, report } = await bench(url);
    expect(code).toBe(0);
    expect(report!.experiments.server!.modes.server!.failed_requests).toBe(0);
  });

  test('accepts time limits that are longer than a timer can wait', async () => {
    const { url } = await serve(streamed);
    const { code, report } = await bench(url, '--request-timeout-sec', '5000000', '--budget', '1000h');
    expect([code, report!.complete]).toEqual([0, true]);
  });

  test('counts requests that failed before Ctrl-C', async () => {
    let count = 0;
    const world = benchWorld();
    const { url } = await serve((asked, response) => {
      count++;
      if (count === 1) response.writeHead(503).end('full');
      else if (count === 2) streamed(asked, response);
      else world.interrupt();
    });
    const { code, report } = await benchIn(world, url);
    expect(code).toBe(130);
    expect(report).toMatchObject({ complete: false, incomplete_reason: 'interrupted' });
    expect([report!.plan.rounds, report!.experiments.server!.rounds]).toEqual([0, 0]);
    expect(world.out().replaceAll('\n', ' ')).toContain('; a part of the first round in ');
    const errors = [{ message: 'the server answered 503: full', count: 1 }];
    expect(report!.modes.server).toMatchObject({ requests: 1, failed_requests: 1, errors });
  });

  test('times a round that Ctrl-C ends until its last answer, without warm-up', async () => {
    let count = 0;
    const world = benchWorld();
    const { url } = await serve((asked, response) => {
      count++;
      if (count <= 3) streamed(asked, response);
      else world.interrupt();
    });
    const { code, report } = await benchIn(world, url, '--warmup-step');
    expect(code).toBe(130);
    const { runtime_ms, samples } = report!.experiments.server!.modes.server!;
    expect(samples).toHaveLength(1);
    expect(runtime_ms).toBeCloseTo(samples[0]!.start_ms + samples[0]!.latency_ms, 6);
  });

  test('reports an error if all requests failed before the budget ended', async () => {
    let count = 0;
    const { url } = await serve((_, response) => void (count++ === 0 && response.writeHead(503).end('full')));
    const { code, world } = await bench(url, '--budget', '0.5s');
    expect(code).toBe(1);
    expect(world.err()).toMatch(/no request was answered; 1 time: the server answered 503: full/);
  });

  describe('a server that accepts the connection and never names its model', () => {
    test('causes an error after --request-timeout-sec', async () => {
      const { code, world } = await bench(await silent(() => {}), '--request-timeout-sec', '0.2');
      expect(code).toBe(1);
      expect(world.err()).toMatch(/v1\/models did not answer in 0.2 s: .*--model/);
    });

    test('is abandoned at once on Ctrl-C', async () => {
      const world = benchWorld();
      const { code, report } = await benchIn(world, await silent(() => world.interrupt()));
      expect([code, report]).toEqual([130, null]);
    });
  });
});
