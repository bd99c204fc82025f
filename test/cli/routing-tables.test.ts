import { expect, test } from 'vitest';
import {
  edgeTable,
  movingLines,
  routingVerdicts,
  speedTable,
  workTable,
} from '../../src/cli/multiturn/routing-tables.ts';
import { routingLines } from '../../src/cli/output/routing-table.ts';
import { plainStyle } from '../../src/cli/output/table.ts';
import type { Experiment } from '../../src/measure/schemas/bench-report.ts';
import type { RunReport } from '../../src/measure/schemas/report.ts';

const candidate = (engine_id: string, side: 'prefill' | 'decode', score: number) => ({
  engine_id,
  side,
  in_flight: 3,
  running: 2,
  waiting: 1,
  age_ms: 12.5,
  cached_tokens: 64,
  score,
  best: 'least' as const,
});
const run = {
  turns: [
    {
      conversation_id: 'a',
      turn: 2,
      ttft_ms: 30,
      local_hit_tokens: 64,
      pulled_tokens: 10,
      computed_tokens: 6,
      transfer: { d_to_p: { bytes: 100 } },
      routing: {
        policy: 'least-ttft',
        way: 'pull',
        prefill: 'prefill-11',
        decode: 'decode-1',
        load: 'decode-0',
        why: 'the least of all',
        predicted_ttft_ms: 25,
        decided_in_ms: 0.01,
        candidates: [
          ...Array.from({ length: 12 }, (_, i) => candidate(`prefill-${i}`, 'prefill', 20 - i)),
          candidate('decode-0', 'decode', 1 / 3),
          candidate('decode-1', 'decode', 0.25),
        ],
      },
    },
    { conversation_id: 'b', turn: 1 },
  ],
} as unknown as RunReport;

test('a decision lists its candidates, what was known of them, which were chosen, and the outcome', () => {
  const lines = routingLines(run, plainStyle);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  const text = lines.join('\n');
  expect(text).toContain('a turn 2: prefill-11 to decode-1, with what decode-0 holds.');
  expect(lines.filter((line) => line.endsWith('<')).map((line) => line.split(/\s+/)[1])).toEqual([
    'prefill-11',
    'decode-1',
  ]);
  // Of twelve candidates: the chosen one and the seven best.
  expect(text).toContain('and 4 more');
  expect(text).not.toContain('prefill-3 ');
  expect(text).toContain('TTFT 30.0, predicted 25.0; 64 tokens hit, 10 pulled, 6 computed');
  expect(text).not.toContain('b turn 1');
});

test('tokens loaded from the store are listed apart from those that were pulled', () => {
  const [turn] = run.turns;
  const transfer = { store_to_p: { bytes: 400 }, d_to_p: { bytes: 100 } };
  const both = { turns: [{ ...turn, transfer }] } as unknown as RunReport;
  expect(routingLines(both, plainStyle).join(' ').replace(/\s+/g, ' ')).toContain(
    '64 tokens hit, 2 pulled, 8 loaded from the store, 6 computed',
  );
});

const described = { mean: 1234, p50: 1234, p90: 12_345, p99: 12_345 };
const mode = (label: string) => ({
  label,
  table: { ttft_ms: described, tpot_ms: { p50: 123, p90: 123, p99: 1234 } },
  requests_per_second: 123.45,
  local_hit_tokens: 1_087_520,
  pulled_tokens: 842_782,
  computed_tokens: 913_326,
  bytes_p_to_d: 123e6,
  bytes_d_to_p: 123e6,
  routing: {
    prefill: { max_over_mean: 1.21, jain: 0.96 },
    decode: { max_over_mean: null, jain: null },
    moved_turns: 463,
    edges: [],
    goodput: { share: 0.97, requests_per_second: 120 },
  },
});
const modes = [mode('round-robin'), mode('least-request:1,prefix-cache:2')] as unknown as Parameters<
  typeof speedTable
>[0];

test('tables of several policies fit 80 columns, whatever their names', () => {
  for (const line of [...speedTable(modes, plainStyle), ...workTable(modes, plainStyle)])
    expect(line.length).toBeLessThanOrEqual(80);
});

test('the edge table lists P to D first, the edges that moved the most, and the others together', () => {
  const ids = ['prefill-0', 'prefill-1', 'prefill-2', 'decode-0', 'decode-1', 'decode-2'];
  const pairs = ids.slice(0, 3).flatMap((from) => ids.slice(3).map((to) => ({ from, to })));
  const edges = [
    ...pairs.map((pair, i) => ({ ...pair, bytes: 123e6 + i * 1e6 })),
    { from: 'decode-0', to: 'prefill-1', bytes: 999e6 },
  ];
  const busy = modes.map((each) => ({ ...each, routing: { ...each.routing, edges } }));
  const lines = edgeTable(busy, plainStyle);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  // Nine edges and one: the two with the least are the others.
  expect(lines[0]!.trim().split(/\s+/)).toEqual([
    ...['MB', 'P0→D2', 'P1→D0', 'P1→D1', 'P1→D2', 'P2→D0', 'P2→D1', 'P2→D2', 'D0→P1', 'others'],
  ]);
  expect(lines.at(-2)).toMatch(/^round-robin .* 131\.0 +999\.0 +247\.0$/);
});

test('the cost of moving turns is stated with its interval, or as no difference', () => {
  const turns = (ttft_ms: number, bytes_p_to_d: number) => ({
    ...{ turns: 12, ttft_ms, bytes_p_to_d, bytes_d_to_p: 5e5, computed_tokens: 4 },
  });
  const moving = { requests: 8, stayed: turns(20, 1e6), moved: turns(30, 4e6) };
  const [sure] = movingLines({ moving: { ...moving, ttft_ratio: { ratio: 1.5, low: 1.2, high: 1.9 } } });
  expect(sure).toContain('8 later turns went to another D under one policy and stayed under another.');
  expect(sure).toContain(
    'TTFT 30.0 ms against 20.0 ms: 1.50x, between 1.20 and 1.90; per turn 4.00 MB against 1.00 MB',
  );
  const [unsure] = movingLines({ moving: { ...moving, ttft_ratio: { ratio: 1.5, low: 0.9, high: 1.9 } } });
  expect(unsure).toContain('no difference');
  expect(movingLines({})).toEqual([]);
});

test('a policy is called faster only if the interval says so', () => {
  const pair = (low: number, high: number) => ({
    reference: 'rr',
    ttft_ms: { mean: { ratio: 1.2, low, high, reference: 1, candidate: 1 } },
  });
  const said = routingVerdicts({
    modes: { rr: modes[0], a: { label: 'a' }, b: { label: 'b' } },
    comparisons: { a: pair(1.1, 1.3), b: pair(0.9, 1.5) },
  } as unknown as Experiment).map(({ text }) => text);
  expect(said[0]).toBe('a is faster than round-robin: mean TTFT 1.20x, between 1.10 and 1.30.');
  expect(said[1]).toContain('b and round-robin: no difference');
});
