import { describe, expect, test } from 'vitest';
import { type RunKey, runKeys } from '../../src/config/run.ts';
import { compareWithBaseline } from '../../src/measure/baseline.ts';
import type { Report } from '../../src/measure/report.ts';
import { parseReport } from '../../src/measure/report-kinds.ts';
import { setUpSection } from '../../src/report/common.ts';
import { benchReport, runReport } from '../report/reports.ts';

/** What results cannot change by. A new setting counts unless it is added here with reason. */
const OUTPUT_KEYS = new Set<RunKey>([
  ...(['json', 'html', 'markdown', 'junit', 'csv', 'assert', 'baseline', 'record'] as const),
  // A profile is a run of its own, in no other figure.
  ...(['traceOut', 'gantt', 'profile', 'explainRouting', 'debug'] as const),
]);

const movement = (report: Parameters<typeof compareWithBaseline>[0], earlier: typeof report, name: string) =>
  compareWithBaseline(report, earlier, 'before.json').figures.find((figure) => figure.name === name)
    ?.movement;

/** Every time of a mode, times a factor that may differ from turn to turn. */
function slowed(report: Report, mode: string, factor: (turn: number) => number): Report {
  const copy = structuredClone(report);
  for (const run of copy.runs.filter((run) => run.mode === mode)) {
    for (const turn of run.turns) turn.ttft_ms *= factor(turn.turn);
  }
  return copy;
}

describe('a run against an earlier one', () => {
  test('the same report: no count changed, no time moved', async () => {
    const report = await runReport();
    const baseline = compareWithBaseline(report, structuredClone(report), 'before.json');
    expect(baseline).toMatchObject({
      same_machine: true,
      differences: [],
      changed_counts: 0,
      better: 0,
      worse: 0,
    });
    expect(baseline.figures.length).toBeGreaterThan(20);
    expect(new Set(baseline.figures.map((figure) => figure.movement))).toEqual(new Set(['same', 'noise']));
  });

  test('a count that differs by one has changed', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    before.runs[2]!.summary.pulled_tokens -= 1;
    expect(movement(report, before, 'bidirectional pulled_tokens')).toBe('changed');
    expect(compareWithBaseline(report, before, 'f').changed_counts).toBe(1);
  });

  test('a time moves when every turn did, by more than one pass can vary; else it is noise', async () => {
    const report = await runReport();
    const name = 'bidirectional ttft_ms';
    expect(
      movement(
        slowed(report, 'bidirectional', () => 1.5),
        report,
        name,
      ),
    ).toBe('worse');
    expect(
      movement(
        slowed(report, 'bidirectional', () => 0.5),
        report,
        name,
      ),
    ).toBe('better');
    expect(
      movement(
        slowed(report, 'bidirectional', () => 1.1),
        report,
        name,
      ),
    ).toBe('noise');
    // Up in some turns, down in others: the interval holds 1 though the mean moved.
    expect(
      movement(
        slowed(report, 'bidirectional', (turn) => (turn % 2 === 0 ? 3 : 0.4)),
        report,
        name,
      ),
    ).toBe('noise');
  });

  test('on another machine counts are judged, times are not, and it is said', async () => {
    const report = slowed(await runReport(), 'bidirectional', () => 9);
    const before = await runReport();
    before.machine.cpu = 'Slide rule';
    const baseline = compareWithBaseline(report, before, 'before.json');
    expect(baseline).toMatchObject({ same_machine: false, worse: 0, changed_counts: 0 });
    expect(baseline.differences).toEqual(['another processor: 2 x Abacus 3000, before 2 x Slide rule']);
    expect(movement(report, before, 'bidirectional ttft_ms')).toBe('not judged');
  });

  test('settings that differ are named, where results went is not', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    Object.assign(before.config, { threshold: 7, html: 'x.html' });
    expect(compareWithBaseline(report, before, 'f').differences).toEqual(['another threshold: 64, before 7']);
  });

  test.each(runKeys)('%s: named when it differs, unless it only says where results go', async (key) => {
    const report = await runReport();
    const before = structuredClone(report);
    Object.assign(before.config, { [key]: 'another' });
    const { differences } = compareWithBaseline(report, before, 'f');
    expect(differences.map((text) => text.split(':')[0])).toEqual(
      OUTPUT_KEYS.has(key) ? [] : [`another ${key}`],
    );
    // The report's own page leaves out the same.
    const { pieces } = setUpSection(report, { kind: 'facts', title: '', facts: [] });
    const settings = pieces
      .flatMap((piece) => (piece.kind === 'facts' ? piece.facts : []))
      .map(([name]) => name);
    if (OUTPUT_KEYS.has(key)) expect(settings).not.toContain(key);
  });
});

describe('a benchmark against an earlier one', () => {
  const steady = { rounds: 3, requests: 12 };
  const flat = (uni: number, bi: number) =>
    benchReport({
      ...steady,
      ttft: (mode, round, i) => (mode === 'bidirectional' ? bi : uni) + i + 0.1 * round,
    });

  test('a change larger than the rounds differ is one, a smaller one is not', () => {
    const name = 'prefix_caching_off bidirectional ttft_ms';
    expect(movement(flat(100, 56), flat(100, 50), name)).toBe('worse');
    expect(movement(flat(100, 50), flat(100, 50), name)).toBe('noise');
    const restless = benchReport({ ...steady, ttft: (_, round, i) => 50 + i + 20 * round });
    const moved = benchReport({ ...steady, ttft: (_, round, i) => 56 + i + 20 * round });
    expect(movement(moved, restless, name)).toBe('noise');
  });

  test('of requests that only one answered, no time, count or ratio is judged, and it is said', () => {
    const shape = { rounds: 3, ttft: (_: string, __: number, i: number) => 100 * (i + 1) };
    const before = benchReport({ ...shape, requests: 6 });
    const slower = (_: string, __: number, i: number) => 115 * (i + 1);
    const now = benchReport({ rounds: 3, requests: 4, ttft: slower });
    const { differences, figures, better, changed_counts } = compareWithBaseline(now, before, 'f');
    const ttft = figures.find(({ name }) => name === 'prefix_caching_off bidirectional ttft_ms')!;
    expect(ttft).toMatchObject({ movement: 'worse', before: 250, now: 287.5 });
    expect(ttft.ratio).toBeCloseTo(1.15);
    expect(ttft.low).toBeLessThanOrEqual(ttft.ratio! + 1e-9);
    expect(ttft.high).toBeGreaterThanOrEqual(ttft.ratio! - 1e-9);
    expect({ better, changed_counts }).toEqual({ better: 0, changed_counts: 0 });
    const other = ['prompt_tokens', 'bytes_p_to_d'].map((what) => `prefix_caching_off bidirectional ${what}`);
    for (const name of [...other, 'prefix_caching_off comparison ttft_ms mean ratio'])
      expect(movement(now, before, name)).toBe('not judged');
    expect(differences).toContain(
      'different requests in prefix_caching_off bidirectional: 12, before 18, 12 of them in both; times cover the common ones, and counts are not compared',
    );
  });

  test('another number of rounds: times and ratios are compared, sums are not', () => {
    const now = benchReport({ ...steady, rounds: 2, ttft: (_, round, i) => 100 + i + 0.1 * round });
    const before = benchReport({ ...steady, ttft: (_, round, i) => 50 + i + 0.1 * round });
    expect(movement(now, before, 'prefix_caching_off bidirectional ttft_ms')).toBe('worse');
    expect(movement(now, before, 'prefix_caching_off bidirectional prompt_tokens')).toBe('not judged');
    expect(movement(now, before, 'prefix_caching_off comparison ttft_ms mean ratio')).toBe('noise');
  });

  test('a ratio that rounds differ by is noise, and so is one that a single round does not tell', () => {
    const name = 'prefix_caching_off comparison ttft_ms mean ratio';
    const judged = (rounds: number, candidate: (round: number) => number) => {
      const of = (slower: (round: number) => number) =>
        benchReport({
          ...{ rounds, requests: 12 },
          ttft: (mode, round, i) => (mode === 'bidirectional' ? slower(round) : 100) + 0.01 * i,
        });
      return movement(
        of(candidate),
        of(() => 50),
        name,
      );
    };
    expect(judged(1, () => 56)).toBe('noise');
    expect(judged(1, () => 65)).toBe('worse');
    expect(judged(3, () => 56)).toBe('worse');
    // Something else ran in the last round.
    expect(judged(3, (round) => (round === 2 ? 70 : 50))).toBe('noise');
  });

  test('a ratio is judged by the intervals of both reports, on any machine', () => {
    const name = 'prefix_caching_off comparison ttft_ms mean ratio';
    const other = flat(100, 25);
    other.machine.cpu = 'Slide rule';
    expect(movement(flat(100, 50), other, name)).toBe('worse');
    expect(movement(other, flat(100, 50), name)).toBe('better');
    expect(movement(flat(100, 50), flat(100, 50), name)).toBe('noise');
  });
});

describe('what cannot be compared is refused with a sentence', () => {
  test('another kind, another model', async () => {
    const run = await runReport();
    const bench = benchReport({ rounds: 1, requests: 3, ttft: () => 5 });
    expect(() => compareWithBaseline(run, bench, 'b.json')).toThrow(
      'b.json is a report of kvferry bench and this is kvferry run',
    );
    const other = await runReport(['run', '--model', 'tiny', '--turns', '2']);
    expect(() => compareWithBaseline(run, other, 'o.json')).toThrow(
      'o.json was measured with the model tiny and this is nano',
    );
  });

  test.each([
    ['{', /x.json is not JSON/],
    ['{"a": 1}', /x.json is not a report of kvferry: wanted a file that --json of kvferry run/],
    ['{"kvferry":"1","kind":"walk","schema_version":1}', /kind 'walk': wanted one of run, bench/],
    [
      '{"kvferry":"1","kind":"run","schema_version":99}',
      /x.json has layout 99, and this kvferry reads layout 1/,
    ],
    [
      '{"kvferry":"1","kind":"run","schema_version":1}',
      /x.json is not a valid report of kvferry run: created/,
    ],
  ])('%s', (text, expected) => {
    expect(() => parseReport(text, 'x.json')).toThrow(expected);
  });
});
