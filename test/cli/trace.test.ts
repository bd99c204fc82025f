import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { nodeDeps } from '../../src/cli/node/node-deps.ts';
import { fakeWorld } from './fake.ts';

const row = (timestamp: number, hash_ids: number[]) =>
  `${JSON.stringify({ timestamp, input_length: 512 * hash_ids.length, output_length: 100, hash_ids })}\n`;
const TRACE = row(0, [0, 1]) + row(8000, [0, 1, 2, 3]) + row(9000, [4]);

describe('kvferry trace', () => {
  it('info prints a table and sentences within 80 columns, and writes JSON', async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    expect(await main(['trace', 'info', 't.jsonl', '--json', 'out.json'], world.deps)).toBe(0);
    expect(world.out()).toContain('t.jsonl: mooncake, 512 tokens a block.');
    expect(world.out()).toContain('3 requests in 2 conversations: 1 turn (33.3%) continues an earlier one');
    expect(world.out().replaceAll('\n', ' ')).toMatch(
      /A continuing turn contains .* It arrives 8 s after the previous turn/,
    );
    for (const line of world.out().split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(JSON.parse(world.files.get('out.json')!)).toMatchObject({
      requests: 3,
      follow_ups: 1,
      bad_lines: 0,
    });
  });

  it('decompresses a trace whose name ends in .gz, and reports one that is not compressed', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-trace-'));
    try {
      const [packed, broken] = ['t.jsonl.gz', 'b.jsonl.gz'].map((name) => path.join(folder, name));
      writeFileSync(packed!, gzipSync(TRACE));
      writeFileSync(broken!, TRACE);
      const { readTextPieces } = await nodeDeps();
      const read = (file: string) => {
        const world = fakeWorld();
        return { world, run: main(['trace', 'info', file], { ...world.deps, readTextPieces }) };
      };
      const good = read(packed!);
      expect(await good.run).toBe(0);
      expect(good.world.out()).toContain('3 requests in 2 conversations');
      const bad = read(broken!);
      expect(await bad.run).not.toBe(0);
      expect(bad.world.err()).toContain(`cannot read ${broken}: incorrect header check; give another path`);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('convert compresses an output whose name ends in .gz', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-trace-'));
    try {
      const out = path.join(folder, 'out.jsonl.gz');
      const world = fakeWorld({}, { 't.jsonl': TRACE });
      const { createTextFile } = await nodeDeps();
      expect(await main(['trace', 'convert', 't.jsonl', out], { ...world.deps, createTextFile })).toBe(0);
      expect(gunzipSync(readFileSync(out)).toString().split('\n')).toHaveLength(4);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each([
    'trace info t.jsonl',
    'trace convert t.jsonl out.jsonl',
    'simulate --trace t.jsonl',
    'plan --trace t.jsonl --slo-ttft 1s',
    'replay t.jsonl',
  ])('stops reading a long trace on Ctrl-C: %s', async (argv) => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    let read = 0;
    async function* readTextPieces(): AsyncGenerator<string> {
      for (; read < 3; read++) {
        yield TRACE;
        world.interrupt();
      }
    }
    expect(await main(argv.split(' '), { ...world.deps, readTextPieces })).toBe(130);
    expect(read).toBe(1);
  });

  it.each(['trace info t.jsonl', 'report r.json'])(
    'stops waiting for a pipe to which nobody writes on Ctrl-C: %s',
    async (argv) => {
      const world = fakeWorld({}, { 't.jsonl': TRACE });
      const waits = (): Promise<never> => {
        world.interrupt();
        return new Promise(() => {});
      };
      async function* readTextPieces(): AsyncGenerator<string> {
        yield TRACE;
        yield await waits();
      }
      const deps = { ...world.deps, readTextFile: waits, readTextPieces };
      expect(await main(argv.split(' '), deps)).toBe(130);
    },
  );

  it('info prints thousands of tokens in sentences as in the table', async () => {
    const world = fakeWorld({}, { 't.jsonl': row(0, [0, 1]) + row(8000, [0, 1, 2, 3, 4, 5]) });
    expect(await main(['trace', 'info', 't.jsonl'], world.deps)).toBe(0);
    expect(world.out().replaceAll('\n', ' ')).toContain('100 tokens that D generated and 1,948 new ones');
  });

  it('info prints half a second as 0.5 s, and says so if no turn follows another', async () => {
    const world = fakeWorld({}, { 't.jsonl': row(0, [0, 1]) + row(500, [4]) });
    expect(await main(['trace', 'info', 't.jsonl'], world.deps)).toBe(0);
    expect(world.out()).toContain('2 requests in 2 conversations: none continues an earlier one.');
    expect(world.out()).toContain('Over 0.5 s, 4.00 per second.');
  });

  it("convert writes Mooncake's format, scaled and cut", async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    const args = [
      'trace',
      'convert',
      't.jsonl',
      'o.jsonl',
      '--trace-scale',
      '1/32',
      '--limit',
      '2',
      '--speed-up',
      '2',
    ];
    expect(await main(args, world.deps)).toBe(0);
    expect(world.files.get('o.jsonl')!.split('\n')[1]).toBe(
      '{"timestamp":4000,"input_length":64,"output_length":4,"hash_ids":[0,1,2,3],"session_id":"trace-0"}',
    );
    expect(world.out()).toContain('wrote 2 requests to o.jsonl; each hash id stands for 16 tokens.');
  });

  it('convert leaves no partial trace behind if it fails', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
    try {
      const [from, to] = [path.join(folder, 't.jsonl'), path.join(folder, 'o.jsonl')];
      const line = (i: number) =>
        JSON.stringify({ timestamp: i, input_length: 512, output_length: 2, hash_ids: [i] });
      writeFileSync(from, `${Array.from({ length: 2000 }, (_, i) => line(i)).join('\n')}\nno JSON\n`);
      const deps = await nodeDeps();
      const { stderr, stdout } = fakeWorld().deps;
      expect(await main(['trace', 'convert', from, to], { ...deps, stderr, stdout })).toBe(2);
      expect(existsSync(to)).toBe(false);
      expect(await main(['trace', 'convert', from, to, '--skip-bad'], { ...deps, stderr, stdout })).toBe(0);
      expect(readFileSync(to, 'utf8').trim().split('\n')).toHaveLength(2000);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('convert does not overwrite the trace through a link to it', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
    try {
      const [from, to] = [path.join(folder, 't.jsonl'), path.join(folder, 'o.jsonl')];
      writeFileSync(from, TRACE);
      symlinkSync(from, to);
      const { stderr, stdout } = fakeWorld().deps;
      const deps = { ...(await nodeDeps()), stderr, stdout };
      expect(await main(['trace', 'convert', from, to], deps)).toBe(2);
      expect(readFileSync(from, 'utf8')).toBe(TRACE);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('convert gives unused ids to blocks that have none or too large ones', async () => {
    const line = (hash_ids?: number[]) =>
      JSON.stringify({ timestamp: 0, input_length: 1024, output_length: 1, hash_ids });
    const text = [line([0, 1]), line(), line([2 ** 53 - 2, 2 ** 53 - 3]), line([1, 0])].join('\n');
    const world = fakeWorld({}, { 't.jsonl': text });
    expect(await main(['trace', 'convert', 't.jsonl', 'o.jsonl'], world.deps)).toBe(0);
    const ids = world.files
      .get('o.jsonl')!
      .trim()
      .split('\n')
      .map((each) => JSON.parse(each).hash_ids);
    expect(ids).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
      [1, 0],
    ]);
    expect(await main(['trace', 'convert', 't.jsonl', 'o.jsonl', '--trace-scale', '1/32'], world.deps)).toBe(
      2,
    );
    expect(world.err()).toContain('line 2 has no hash_ids and those before it have some: an id would');
  });

  it.each([
    [['info', 'none.jsonl'], 'cannot read none.jsonl'],
    [['info'], 'no trace is given'],
    [['convert', 't.jsonl'], 'trace convert has no output file'],
    [['convert', 't.jsonl', './t.jsonl'], "'./t.jsonl' is the input trace"],
    [[], 'kvferry: trace has no action: wanted trace info FILE'],
    [['info', 't.jsonl', '--trace', 'bad.jsonl'], '--trace has no effect in kvferry trace'],
    [['show', 't.jsonl'], "there is no 'trace show'"],
    [['info', 't.jsonl', '--speed-up', '2'], '--speed-up has no effect in trace info'],
    [['info', 't.jsonl', '--trace-scale', '1/32'], '--trace-scale has no effect in trace info'],
    [['info', 't.jsonl', '--think-time', '1s'], '--think-time has no effect on a mooncake trace'],
    [
      ['convert', 't.jsonl', 'o.jsonl', '--conversation-rate', '3'],
      '--conversation-rate has no effect on a mooncake trace, which contains its own arrival times',
    ],
    [['info', 't.jsonl', '--trace-format', 'csv'], '--trace-format is'],
    [['info', 'bad.jsonl'], 'bad.jsonl, line 4: it is not JSON'],
    [['info', 't.jsonl', '--trace-block-size', '16', '--skip-bad'], 'has no usable request'],
  ])('refuses %j', async (args, message) => {
    const world = fakeWorld({}, { 't.jsonl': TRACE, 'bad.jsonl': `${TRACE}nonsense\n` });
    expect(await main(['trace', ...args], world.deps)).toBe(2);
    expect(world.err()).toContain(message);
  });

  it('convert names the option for reading a file whose ids stand for fewer tokens than usual', async () => {
    const text = `${JSON.stringify({ chat_id: 1, timestamp: 0, input_length: 33, output_length: 5, hash_ids: [1, 2, 3] })}\n`;
    const world = fakeWorld({}, { 'b.jsonl': text, 't.jsonl': TRACE });
    expect(await main(['trace', 'convert', 'b.jsonl', 'o.jsonl'], world.deps)).toBe(0);
    expect(world.out()).toContain('To read it, give --trace-block-size 16;');
    const again = fakeWorld({}, { 'o.jsonl': world.files.get('o.jsonl')! });
    expect(await main(['trace', 'info', 'o.jsonl'], again.deps)).toBe(2);
    expect(await main(['trace', 'info', 'o.jsonl', '--trace-block-size', '16'], again.deps)).toBe(0);
    const usual = fakeWorld({}, { 't.jsonl': TRACE });
    expect(await main(['trace', 'convert', 't.jsonl', 'o.jsonl'], usual.deps)).toBe(0);
    expect(usual.out()).not.toContain('--trace-block-size');
  });

  it.each([
    [
      'sessions whose later turns have a delay',
      Array.from({ length: 40 }, (_, i) =>
        JSON.stringify({
          session_id: Math.floor(i / 10),
          ...(i % 10 === 0 ? { timestamp: 100 * i } : { delay: 5 }),
          input_length: 10 * ((i % 10) + 1),
          output_length: 5,
        }),
      ).join('\n'),
      '4 of them have a time, over 3 s; the others follow an answer.',
    ],
    [
      'one session',
      [{ timestamp: 0 }, { delay: 5 }]
        .map((time, i) =>
          JSON.stringify({ ...time, session_id: 1, input_length: 10 * (i + 1), output_length: 5 }),
        )
        .join('\n'),
      '1 of them has a time, over 0 s; the others follow an answer.',
    ],
    [
      'conversations',
      JSON.stringify(
        Array.from({ length: 6 }, () => ({
          conversations: Array.from({ length: 10 }, (_, i) => ({
            from: i % 2 ? 'gpt' : 'human',
            value: 'a b',
          })),
        })),
      ),
      'No times: --conversation-rate sets when conversations begin.',
    ],
  ])('info reports no bursts for %s', async (_name, text, times) => {
    const world = fakeWorld({}, { t: text });
    expect(await main(['trace', 'info', 't', '--json', 'o'], world.deps)).toBe(0);
    const out = world.out().replace(/\s+/g, ' ');
    expect(out).toContain(times);
    expect(out).not.toContain('bursts');
    expect(JSON.parse(world.files.get('o')!)).toMatchObject({
      requests_per_timestamp: 1,
      requests_per_second: null,
    });
  });

  it('info counts a time once even if sessions take turns in the file', async () => {
    const text = [0, 1].flatMap((session_id) =>
      [0, 10, 20].map((timestamp, i) =>
        JSON.stringify({ session_id, timestamp, input_length: 10 * (i + 1), output_length: 5 }),
      ),
    );
    const world = fakeWorld({}, { t: text.join('\n') });
    expect(await main(['trace', 'info', 't', '--json', 'o'], world.deps)).toBe(0);
    expect(JSON.parse(world.files.get('o')!)).toMatchObject({
      timed_requests: 6,
      requests_per_timestamp: 2,
    });
  });

  it('escapes control characters and turns of direction from a file', async () => {
    const bad = `${TRACE}\u001b]0;title\u0007\u009b2J\r\u202e{\n`;
    for (const args of [[], ['--skip-bad']]) {
      const world = fakeWorld({}, { 'bad\u001b[2J\u2067.jsonl': bad });
      await main(['trace', 'info', 'bad\u001b[2J\u2067.jsonl', ...args], { ...world.deps, color: true });
      const said = world.out() + world.err();
      expect(said).toContain('\\u001b[2J\\u2067.jsonl');
      expect(said).toContain('\\u001b]0;title');
      expect(said).toContain('\\u202e{');
      // The program's own colours are allowed.
      expect(said.replace(/\p{Cc}\[\d+m/gu, '')).toMatch(/^[\P{Cc}\n]*$/u);
    }
  });

  it('info names the lines that it skipped', async () => {
    const world = fakeWorld({}, { 'bad.jsonl': `${TRACE}nonsense\n` });
    expect(await main(['trace', 'info', 'bad.jsonl', '--skip-bad'], world.deps)).toBe(0);
    expect(world.out().replace(/\s+/g, ' ')).toContain('1 bad line skipped: line 4: it is not JSON');
  });
});
