import { describe, expect, it } from 'vitest';
import { sumOf } from '../../../src/sum.ts';
import { BadLines } from '../../../src/workload/traces/bad-lines.ts';
import { contentKind } from '../../../src/workload/traces/content.ts';
import { openTrace, type ReadOptions } from '../../../src/workload/traces/read.ts';
import { TraceMeter } from '../../../src/workload/traces/summary.ts';
import { lines } from '../../../src/workload/traces/text.ts';
import { TurnMaker } from '../../../src/workload/traces/turns.ts';
import type { TraceRequest, TraceScale } from '../../../src/workload/traces/types.ts';
import { MooncakeWriter } from '../../../src/workload/traces/write.ts';
import { request, turnsOf } from './sample-trace.ts';

async function* cut(text: string, size: number): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
}

async function read(text: string, more: Partial<ReadOptions> & { skipBad?: boolean; pieces?: number } = {}) {
  const { skipBad = false, pieces = 7, ...options } = more;
  const bad = new BadLines('trace', skipBad);
  const opened = await openTrace(cut(text, pieces), {
    source: 'trace',
    format: null,
    traceBlockSize: null,
    limit: null,
    countTokens: (said) => said.split(' ').length,
    untimed: { perSecond: 1, thinkMs: 250, seed: 3 },
    bad,
    ...options,
  });
  const requests: TraceRequest[] = [];
  for await (const request of opened.requests) requests.push(request);
  return { ...opened, requests, bad };
}

const rows = (...objects: object[]): string => objects.map((each) => `${JSON.stringify(each)}\n`).join('');

describe('openTrace()', () => {
  it("recognises and reads Mooncake's JSONL", async () => {
    const text = rows(
      { timestamp: 3000, input_length: 600, output_length: 5, hash_ids: [0, 1] },
      { timestamp: 6000, input_length: 512, output_length: 1, hash_ids: [0] },
    );
    const { format, traceBlockSize, requests } = await read(text);
    expect([format, traceBlockSize]).toEqual(['mooncake', 512]);
    expect(requests).toEqual([
      {
        index: 0,
        line: 1,
        arrivalMs: 0,
        answeredMs: null,
        inputTokens: 600,
        outputTokens: 5,
        hashIds: [0, 1],
        origin: { kind: 'unsaid' },
      },
      expect.objectContaining({ index: 1, line: 2, arrivalMs: 3000, hashIds: [0] }),
    ]);
  });

  it("reads Mooncake's JSONL with sessions, delays and other field names", async () => {
    const text = rows(
      { session_id: 'a', created_time: 0, input_tokens: 10, output_tokens: 5 },
      { session_id: 'a', delay_ms: 1500, input_tokens: 20, output_tokens: 5 },
    );
    const { requests } = await read(text, { format: 'mooncake' });
    expect(requests.map(({ arrivalMs, origin }) => [arrivalMs, origin])).toEqual([
      [0, { kind: 'session', id: 'a', delayMs: null }],
      [null, { kind: 'session', id: 'a', delayMs: 1500 }],
    ]);
  });

  it('accepts null for missing values', async () => {
    const none = { created_time: null, input_tokens: null, output_tokens: null, hash_ids: null };
    const text = rows(
      { ...none, session_id: 'a', timestamp: 5, input_length: 10, output_length: 5 },
      { ...none, session_id: 'a', timestamp: null, delay: 1500, input_length: 20, output_length: 5 },
    );
    expect((await read(text)).requests.map(({ arrivalMs, hashIds }) => [arrivalMs, hashIds])).toEqual([
      [0, null],
      [null, null],
    ]);
    const chat = { chat_id: 1, parent_chat_id: null, timestamp: 0, input_length: 9, output_length: 3 };
    expect((await read(rows({ ...chat, hash_ids: null }))).requests[0]).toMatchObject({
      hashIds: null,
      origin: { parent: null },
    });
    const served = { input_toks: 3, output_toks: 4, arrival_time_ns: 0, input_tok_ids: null };
    expect((await read(rows(served))).requests[0]).toMatchObject({ hashIds: null });
    await expect(read(rows({ ...none, timestamp: 0, input_length: null, output_length: 5 }))).rejects.toThrow(
      'input_length is missing',
    );
  });

  it("recognises and reads Bailian's JSONL, with seconds, blocks of 16 and parents", async () => {
    const text = rows(
      {
        chat_id: 55,
        parent_chat_id: -1,
        timestamp: 1.5,
        input_length: 17,
        output_length: 3,
        type: 'text',
        turn: 1,
        hash_ids: [7, 8],
      },
      {
        chat_id: 159,
        parent_chat_id: 55,
        timestamp: 61,
        input_length: 33,
        output_length: 3,
        type: 'text',
        turn: 2,
        hash_ids: [7, 9, 10],
      },
    );
    const { format, traceBlockSize, requests } = await read(text);
    expect([format, traceBlockSize]).toEqual(['bailian', 16]);
    expect(requests.map(({ arrivalMs, origin }) => [arrivalMs, origin])).toEqual([
      [0, { kind: 'chat', id: '55', parent: null }],
      [59_500, { kind: 'chat', id: '159', parent: '55' }],
    ]);
  });

  it("turns Bailian's ids of blocks into ids of prefixes", async () => {
    const row = (chat_id: number, hash_ids: number[]) => ({
      ...{ chat_id, parent_chat_id: -1, timestamp: chat_id, hash_ids },
      ...{ input_length: 16 * hash_ids.length, output_length: 1 },
    });
    const { requests } = await read(rows(row(0, [1, 2, 3]), row(1, [2, 3, 9]), row(2, [1, 2, 4])));
    const [first, moved, alike] = requests.map(({ hashIds }) => hashIds!);
    expect(first!.filter((id) => moved!.includes(id))).toEqual([]);
    expect(first!.map((id, at) => alike![at] === id)).toEqual([true, true, false]);
    const meter = new TraceMeter();
    for (const [at, turn] of turnsOf(requests).entries()) meter.add(turn, requests[at]!);
    expect(meter.summary().reuse_bound.from_prompts).toBeCloseTo(2 / 9);
  });

  it("recognises and reads Azure's CSV, with seven decimals of a second", async () => {
    const text =
      'TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n';
    const { format, requests } = await read(text);
    expect(format).toBe('azure');
    expect(requests.map(({ line, inputTokens, outputTokens }) => [line, inputTokens, outputTokens])).toEqual([
      [2, 374, 44],
      [3, 396, 109],
    ]);
    expect(requests[1]!.arrivalMs).toBeCloseTo(4314.579, 3);
  });

  it('recognises and reads BurstGPT, with and without sessions', async () => {
    const old =
      'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n';
    expect((await read(old)).requests).toMatchObject([{ arrivalMs: 0, inputTokens: 472, outputTokens: 18 }]);
    const newer =
      'Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n' +
      '5.5,77,2.1,GPT-4,10,20,30,Conversation log\n9.5,,1.0,GPT-4,11,20,31,API log\n';
    const { format, requests } = await read(newer);
    expect(format).toBe('burstgpt');
    expect(requests.map(({ arrivalMs, answeredMs, origin }) => [arrivalMs, answeredMs, origin])).toEqual([
      [0, 2100, { kind: 'session', id: '77', delayMs: null }],
      [4000, 1000, { kind: 'unsaid' }],
    ]);
  });

  it('reads CSV whose headings are in quotes', async () => {
    const azure = '"TIMESTAMP","ContextTokens","GeneratedTokens"\n"2023-11-16 18:15:46.68","374","44"\n';
    const burst =
      '"Timestamp","Model","Request tokens","Response tokens","Total tokens","Log Type"\n"5","GPT-4","374","44","418","x"\n';
    for (const [text, format] of [
      [azure, 'azure'],
      [burst, 'burstgpt'],
    ] as const) {
      const opened = await read(text);
      expect(opened.format).toBe(format);
      expect(opened.requests).toMatchObject([{ line: 2, inputTokens: 374, outputTokens: 44 }]);
    }
  });

  it("does not take Mooncake's rows with a number of messages for conversations", async () => {
    const { format } = await read(rows({ timestamp: 0, input_length: 5, output_length: 5, messages: 3 }));
    expect(format).toBe('mooncake');
  });

  it("recognises and reads LLMServingSim's JSONL, with equal hash ids for equal token ids", async () => {
    const ids = Array.from({ length: 40 }, (_, i) => i);
    const row = (input_tok_ids: number[], arrival_time_ns: number) => ({
      input_toks: input_tok_ids.length,
      output_toks: 4,
      arrival_time_ns,
      input_tok_ids,
      output_tok_ids: [1, 2, 3, 4],
    });
    const { format, requests } = await read(rows(row(ids, 0), row([...ids.slice(0, 35), 99], 2e6)));
    expect(format).toBe('llmservingsim');
    const [a, b] = requests.map(({ hashIds }) => hashIds!);
    expect([a!.length, b!.slice(0, 2)]).toEqual([3, a!.slice(0, 2)]);
    expect(b![2]).not.toBe(a![2]);
    expect(requests[1]!.arrivalMs).toBe(2);
  });

  it("recognises and reads conversations, in ShareGPT's list and in vLLM's rows", async () => {
    const sharegpt = JSON.stringify(
      [
        {
          id: 'x',
          conversations: [
            { from: 'human', value: 'two "{ words' },
            { from: 'gpt', value: 'one' },
            { from: 'human', value: 'and two' },
            { from: 'gpt', value: 'a b c' },
          ],
        },
        {
          id: 'x',
          conversations: [
            { from: 'human', value: 'no' },
            { from: 'gpt', value: 'yes' },
            { from: 'human', value: '?' },
          ],
        },
      ],
      null,
      2,
    );
    const { format, requests } = await read(sharegpt);
    expect(format).toBe('conversations');
    expect(
      requests.map(({ inputTokens, outputTokens, origin }) => [inputTokens, outputTokens, origin]),
    ).toEqual([
      [3, 1, { kind: 'session', id: 'conversation-1', delayMs: 250 }],
      [6, 3, { kind: 'session', id: 'conversation-1', delayMs: 250 }],
      [1, 1, { kind: 'session', id: 'conversation-2', delayMs: 250 }],
    ]);
    expect(requests.map(({ arrivalMs }) => arrivalMs === null)).toEqual([false, true, false]);
    const vllm = rows({
      id: '1',
      messages: [
        { role: 'user', content: 'a b' },
        { role: 'assistant', content: ['c', 'd'].map((text) => ({ type: 'text', text })) },
      ],
    });
    const countTokens = (said: string) => said.split(/\s/).length;
    expect((await read(vllm, { countTokens })).requests).toMatchObject([{ inputTokens: 2, outputTokens: 2 }]);
  });

  it.each([1, 3, 1000])(
    'reads a file in pieces of %i characters, with a byte order mark and without a last newline',
    async (pieces) => {
      const text = `\ufeff${rows({ timestamp: 0, input_length: 5, output_length: 5, hash_ids: [0] }).trim()}`;
      expect((await read(text, { pieces })).requests).toHaveLength(1);
    },
  );
});

describe('the trace reader', () => {
  const good = { timestamp: 0, input_length: 600, output_length: 5, hash_ids: [0, 1] };

  it.each([
    [{ ...good, hash_ids: [0] }, 'trace, line 2: 1 hash id for 600 tokens: wanted 2'],
    [
      { ...good, input_length: -1 },
      'trace, line 2: input_length is -1: wanted a whole number of tokens, from 1 to 100 million',
    ],
    [
      { ...good, output_length: 1e12 },
      'trace, line 2: output_length is 1000000000000: wanted a whole number of tokens, from 1 to 100 million',
    ],
    [{ ...good, output_length: undefined }, 'trace, line 2: output_length is missing'],
    [{ ...good, wait_for: ['a'] }, 'trace, line 2: it waits for other requests (wait_for)'],
    [{ ...good, hash_ids: [0, 'x'] }, 'trace, line 2: hash_ids is [0,"x"]: wanted a list of whole numbers'],
    [
      { ...good, hash_ids: [2 ** 60] },
      'trace, line 2: hash_ids is [1152921504606847000]: wanted a list of whole numbers from 0 to 2^53 - 1',
    ],
  ])("refuses a bad line of Mooncake's: %j", async (line, message) => {
    await expect(read(rows(good, line))).rejects.toThrow(message);
  });

  it.each(['[{"timestamp":0}]', '7', 'null'])('refuses a line that is not an object: %s', async (line) => {
    await expect(read(`${rows(good)}${line}\n`)).rejects.toThrow(
      `trace, line 2: it is ${line}: wanted an object, one request a line`,
    );
  });

  it.each([
    ...['2024-13-05 00:00:00', '2024-02-30 00:00:00', '2024-06-31 00:00:00', '2023-02-29 00:00:00'],
    ...['2024-05-10 24:00:00', '2024-05-10 00:60:00.5', '0024-05-10 00:00:00'],
  ])('refuses a time that does not exist: %s', async (time) => {
    const text = `TIMESTAMP,ContextTokens,GeneratedTokens\n${time},10,5\n`;
    await expect(read(text)).rejects.toThrow(`trace, line 2: TIMESTAMP is ${time}: wanted a time such as`);
  });

  it('treats a value that nests very deep as a bad line', async () => {
    const good = { timestamp: 0, input_length: 1, output_length: 1, hash_ids: [0] };
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const text = rows(good) + JSON.stringify({ ...good, session_id: 0 }).replace(':0}', `:${deep}}`);
    // If V8 can write it out all the same, its beginning is shown.
    const shown = String.raw`line 2: session_id is (nested very deep|\[{57}\.{3}): wanted a name or a number`;
    await expect(read(text, { pieces: 1000 })).rejects.toThrow(new RegExp(`trace, ${shown}`));
    const { requests, bad } = await read(text, { pieces: 1000, skipBad: true });
    expect([requests.length, bad.count]).toEqual([1, 1]);
    expect(bad.describe()).toMatch(new RegExp(shown));
  });

  it('stops after the last request that is wanted', async () => {
    const good = { timestamp: 0, input_length: 1, output_length: 1, hash_ids: [0] };
    const said = (from: string) => ({ from, value: 'a b' });
    const conversation = { conversations: [said('human'), said('gpt'), said('human'), said('gpt')] };
    for (const text of [`${rows(good, good, good)}broken\n`, `${rows(conversation, conversation)}{broken}`]) {
      const { requests, bad } = await read(text, { limit: 3 });
      expect([requests.length, bad.count]).toEqual([3, 0]);
      await expect(read(text, { limit: 5 })).rejects.toThrow('it is not JSON');
    }
  });

  it('skips bad lines if asked to, counts them and names the first', async () => {
    const text = `${rows(good)}{"timestamp": 1\n${rows({ ...good, timestamp: 9 })}${'nonsense\n'.repeat(6)}`;
    await expect(read(text)).rejects.toThrow('trace, line 2: it is not JSON');
    const { requests, bad } = await read(text, { skipBad: true });
    expect(requests.map(({ index, line }) => [index, line])).toEqual([
      [0, 1],
      [1, 3],
    ]);
    expect(bad.count).toBe(7);
    expect(bad.describe()).toMatch(/^7 bad lines skipped: line 2: it is not JSON.*; and 2 more\.$/);
    // In a list, conversations are counted, not lines.
    const list = `[\n${rows({ messages: [] }).trim()},\n\n{}]`;
    await expect(read(list)).rejects.toThrow(
      'trace, conversation 1: no message in it is answered; --skip-bad skips such conversations',
    );
    expect((await read(list, { skipBad: true })).bad.describe()).toMatch(
      /^2 bad conversations skipped: conversation 1: no message in it is answered; conversation 2: it has neither/,
    );
  });

  it.each([
    ['', 'trace is empty'],
    ['hello world\n', 'trace is in no known trace format: it begins with "hello world"'],
    ['{"filetype": "generate_conversations"}', 'use it with kvferry bench'],
    ['{"messages": [{"role": "user", "content": "a"', 'object 1 does not end'],
    ['Timestamp,Model,Request tokens\n1,GPT\n', 'line 2: 2 cells: wanted 8'],
    ['Timestamp,Model,Request tokens\nbroken\n', 'line 2: 1 cell: wanted 8'],
    ['TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,2\n', 'TIMESTAMP is now: wanted a time such as'],
    [
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,,2\n',
      'ContextTokens is empty: wanted',
    ],
    [
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,1e12,2\n',
      'ContextTokens is 1e12: wanted a whole number of tokens, from 1 to 100 million',
    ],
    [
      'Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,a,long,GPT-4,1,2,3,x\n',
      'line 2: Elapsed time is long: wanted seconds, 0 or more',
    ],
    [
      '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null}]}',
      'messages.1 is {"role":"assistant","content":null}: wanted what was said as text: {from, value}, or',
    ],
    ['{"messages": [{"role": "user", "content": "a"}]}', 'no message in it is answered'],
  ])('refuses the file %j', async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
  });

  it('refuses or skips a line whose time goes backwards', async () => {
    const { requests } = await read(rows(good, { ...good, timestamp: 5000 }, { ...good, timestamp: 4000 }));
    const scale = { traceBlockSize: 512, lengthDivisor: 1, speedUp: 1 };
    const strict = new TurnMaker({ scale, maxModelLen: null, bad: new BadLines('trace', false) });
    expect(() => requests.map((one) => strict.next(one))).toThrow(
      'trace, line 3: time goes backwards: it arrives 4.000 s after the first request and a line before it 5.000 s: sort the trace by time',
    );
    const bad = new BadLines('trace', true);
    const lenient = new TurnMaker({ scale, maxModelLen: null, bad });
    expect(requests.map((one) => lenient.next(one) !== null)).toEqual([true, true, false]);
    expect(bad.count).toBe(1);
  });

  it('gives up on a line that does not end', async () => {
    async function* endless() {
      for (;;) yield 'x'.repeat(1 << 20);
    }
    await expect(lines(endless(), 'trace').next()).rejects.toThrow('trace, line 1 does not end');
  });
});

describe("a trace written in Mooncake's format", () => {
  async function again(text: string, lengthDivisor = 1, options: Partial<ReadOptions> = {}) {
    const { requests, traceBlockSize, bad } = await read(text, options);
    const scale = { traceBlockSize, lengthDivisor, speedUp: 1 };
    const maker = new TurnMaker({ scale, maxModelLen: null, bad });
    const writer = new MooncakeWriter(scale);
    return requests.map((one) => writer.line(maker.next(one)!, one)).join('');
  }

  it("is unchanged if it was Mooncake's own", async () => {
    const text = rows(
      { timestamp: 0, input_length: 1100, output_length: 5, hash_ids: [0, 1, 2] },
      { timestamp: 6000, input_length: 1200, output_length: 1, hash_ids: [0, 1, 3] },
    );
    expect(await again(text)).toBe(text);
  });

  it('has session ids for follow-ups if it is scaled', async () => {
    const text = rows(
      { timestamp: 0, input_length: 1100, output_length: 40, hash_ids: [0, 1, 2] },
      { timestamp: 6000, input_length: 1200, output_length: 1, hash_ids: [0, 1, 3] },
    );
    expect((await again(text, 32)).split('\n')).toEqual([
      '{"timestamp":0,"input_length":35,"output_length":1,"hash_ids":[0,1,2],"session_id":"trace-0"}',
      '{"timestamp":6000,"input_length":38,"output_length":1,"hash_ids":[0,1,3],"session_id":"trace-0"}',
      '',
    ]);
  });

  it('keeps the id of a block that scaling filled in the prompts that continue it', async () => {
    // 506 tokens of the third block become 16 of 16; in the third prompt, the answer fills a fifth one so.
    const text = rows(
      { timestamp: 0, input_length: 1530, output_length: 600, hash_ids: [0, 1, 2] },
      { timestamp: 6000, input_length: 2556, output_length: 20, hash_ids: [0, 1, 3, 4, 5] },
      { timestamp: 9000, input_length: 2600, output_length: 20, hash_ids: [0, 1, 3, 4, 6, 7] },
    );
    const written = await again(text, 32);
    expect(written.split('\n', 3).map((line) => JSON.parse(line).hash_ids)).toEqual([
      [0, 1, 2],
      [0, 1, 2, 3, 4],
      [0, 1, 2, 3, 4, 5],
    ]);
    // Read again, the answer is in the next prompt, as in the original.
    const lengths = async (text: string, scale: TraceScale) =>
      turnsOf((await read(text, { traceBlockSize: scale.traceBlockSize })).requests, scale).map(
        ({ turn, prompt }) => [
          turn,
          sumOf(prompt, (one) => (contentKind(one) === 'answer' ? one.length : 0)),
        ],
      );
    const original = await lengths(text, { traceBlockSize: 512, lengthDivisor: 32, speedUp: 1 });
    expect(original).toEqual([
      [1, 0],
      [2, 19],
      [3, 20],
    ]);
    expect(await lengths(written, { traceBlockSize: 16, lengthDivisor: 1, speedUp: 1 })).toEqual(original);
  });

  it('has hash ids for what turns of conversations have in common, and delays', async () => {
    const say = (from: string, words: number) => ({ from, value: Array(words).fill('w').join(' ') });
    const text = JSON.stringify([
      { conversations: [say('human', 600), say('gpt', 10), say('human', 500), say('gpt', 2)] },
    ]);
    const [first, second] = (await again(text)).split('\n').map((line) => line && JSON.parse(line));
    expect(first).toEqual({
      timestamp: 0,
      input_length: 600,
      output_length: 10,
      hash_ids: [0, 1],
      session_id: 'conversation-1',
    });
    expect(second).toEqual({
      input_length: 1110,
      output_length: 2,
      hash_ids: [0, 2, 3],
      session_id: 'conversation-1',
      delay: 250,
    });
  });

  it('has delays after the previous answer if the file says when that ended', async () => {
    const session = { session_id: 's', input_length: 512, output_length: 9, hash_ids: [0] };
    const delayed = rows({ ...session, timestamp: 0 }, { ...session, timestamp: 9000, delay: 2500 });
    // The end of a request says nothing about the one before.
    const burst = (elapsed: string) =>
      [
        'Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type',
        '0,s,6.5,GPT-4,512,9,521,Conversation log',
        `9,s,${elapsed},GPT-4,512,9,521,Conversation log`,
      ].join('\n');
    for (const text of [delayed, burst('1'), burst('')]) {
      const second = (await again(text)).split('\n')[1]!;
      expect(JSON.parse(second)).toMatchObject({ session_id: 's', timestamp: 9000, delay: 2500 });
    }
  });
});

describe('the summary of a trace', () => {
  it('bounds what can be reused of earlier prompts and of generated tokens', async () => {
    const { requests, bad } = await read(
      rows(
        { timestamp: 0, input_length: 1024, output_length: 512, hash_ids: [0, 1] },
        { timestamp: 9000, input_length: 2048, output_length: 8, hash_ids: [0, 1, 2, 3] },
        { timestamp: 9000, input_length: 1024, output_length: 8, hash_ids: [0, 9] },
      ),
    );
    const maker = new TurnMaker({
      scale: { traceBlockSize: 512, lengthDivisor: 1, speedUp: 1 },
      maxModelLen: null,
      bad,
    });
    const meter = new TraceMeter();
    for (const one of requests) meter.add(maker.next(one)!, one);
    const summary = meter.summary();
    expect(summary).toMatchObject({
      requests: 3,
      conversations: 2,
      follow_ups: 1,
      deepest_turn: 2,
      duration_s: 9,
      blocks: { in_prompts: 8, different: 5 },
      follow_up: { generated_tokens: 512, new_tokens: 512, generated_share: 0.5, gap_s: { p50: 9 } },
    });
    expect(summary.reuse_bound.from_prompts).toBeCloseTo((1024 + 512) / 4096);
    expect(summary.reuse_bound.from_answers).toBeCloseTo(512 / 4096);
  });

  it('has gaps from arrival to arrival, with the think time in them', () => {
    const meter = new TraceMeter();
    const origin = { kind: 'session', id: 's', delayMs: 500 } as const;
    const requests = [0, 9].map((index) => request(index, { inputTokens: 32, origin }));
    for (const [i, turn] of turnsOf(requests).entries()) meter.add(turn, requests[i]!);
    expect(meter.summary().follow_up!.gap_s).toEqual({ p50: 9, p90: 9 });
  });

  it('has no generated share if follow-ups have no new tokens', () => {
    const meter = new TraceMeter();
    const origin = { kind: 'session', id: 's', delayMs: null } as const;
    const again = [0, 1].map((index) => request(index, { hashIds: [1, 2], inputTokens: 32, origin }));
    for (const [i, turn] of turnsOf(again).entries()) meter.add(turn, again[i]!);
    expect(meter.summary().follow_up).toMatchObject({ new_tokens: 0, generated_share: null });
  });
});
