import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { fakeWorld } from './fake.ts';

const row = (timestamp: number, hash_ids: number[]) =>
  `${JSON.stringify({ timestamp, input_length: 512 * hash_ids.length, output_length: 100, hash_ids })}\n`;
const TRACE = row(0, [0, 1]) + row(8000, [0, 1, 2, 3]) + row(9000, [4]);

describe('kvferry trace', () => {
  it('info: a table and sentences of 80 columns, and JSON', async () => {
    const world = fakeWorld({}, { 't.jsonl': TRACE });
    expect(await main(['trace', 'info', 't.jsonl', '--json', 'out.json'], world.deps)).toBe(0);
    expect(world.out()).toContain('t.jsonl: mooncake, 512 tokens a block.');
    expect(world.out()).toContain('3 requests in 2 conversations: 1 turn (33.3%) go on after another');
    for (const line of world.out().split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(JSON.parse(world.files.get('out.json')!)).toMatchObject({
      requests: 3,
      follow_ups: 1,
      bad_lines: 0,
    });
  });

  it("convert: Mooncake's format, scaled and cut", async () => {
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
    expect(world.out()).toContain('wrote 2 requests to o.jsonl; an id stands for 16 tokens.');
  });

  it.each([
    [['info', 'none.jsonl'], 'cannot read none.jsonl'],
    [['info'], 'no trace is named'],
    [['convert', 't.jsonl'], 'trace convert has no file to write'],
    [['show', 't.jsonl'], "there is no 'trace show'"],
    [['info', 't.jsonl', '--trace-format', 'csv'], '--trace-format is'],
    [['info', 'bad.jsonl'], 'bad.jsonl, line 4: it is no JSON'],
    [['info', 't.jsonl', '--trace-block-size', '16', '--skip-bad'], 'has no request that can be used'],
  ])('%j', async (args, message) => {
    const world = fakeWorld({}, { 't.jsonl': TRACE, 'bad.jsonl': `${TRACE}nonsense\n` });
    expect(await main(['trace', ...args], world.deps)).toBe(2);
    expect(world.err()).toContain(message);
  });

  it('names what it passed over', async () => {
    const world = fakeWorld({}, { 'bad.jsonl': `${TRACE}nonsense\n` });
    expect(await main(['trace', 'info', 'bad.jsonl', '--skip-bad'], world.deps)).toBe(0);
    expect(world.out().replace(/\s+/g, ' ')).toContain('1 bad line passed over: line 4: it is no JSON');
  });
});
