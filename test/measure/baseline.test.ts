import { describe, expect, test } from 'vitest';
import { type RunKey, runKeys } from '../../src/config/run.ts';
import { evaluateAssertion, parseAssertion } from '../../src/measure/judging/assertions.ts';
import { compareWithBaseline } from '../../src/measure/judging/baseline.ts';
import type { Report } from '../../src/measure/schemas/report.ts';
import { parseReport } from '../../src/measure/schemas/report-kinds.ts';
import { baselineSentence, setUpSection } from '../../src/report/common.ts';
import { benchReport, runReport } from '../report/reports.ts';

/** Settings that cannot change results. Every other one counts as a difference; add one only with a reason. */
const OUTPUT_KEYS = new Set<RunKey>([
  ...(['json', 'html', 'markdown', 'junit', 'csv', 'assert', 'baseline', 'record'] as const),
  // A profile is a separate run and affects no other figure.
  ...(['traceOut', 'gantt', 'profile', 'explainRouting', 'debug'] as const),
]);

const movement = (report: Parameters<typeof compareWithBaseline>[0], earlier: typeof report, name: string) =>
  compareWithBaseline(report, earlier, 'before.json').figures.find((figure) => figure.name === name)
    ?.movement;

/** A copy of the report with each TTFT of `mode` multiplied by the factor of its turn. */
function slowed(report: Report, mode: string, factor: (turn: number) => number): Report {
  const copy = structuredClone(report);
  for (const run of copy.runs.filter((run) => run.mode === mode)) {
    for (const turn of run.turns) turn.ttft_ms *= factor(turn.turn);
  }
  return copy;
}

describe('comparing a run with an earlier one', () => {
  test('finds no changed count and no moved time in an identical report', async () => {
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

  test('reports a count that differs by one as changed', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    before.runs[2]!.summary.pulled_tokens -= 1;
    expect(movement(report, before, 'bidirectional pulled_tokens')).toBe('changed');
    expect(compareWithBaseline(report, before, 'f').changed_counts).toBe(1);
  });

  test('reports a turn that was answered with other tokens as a changed count, but not judged if the machines differ', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    before.runs[2]!.turns[1]!.output_token_ids[0]! += 1;
    const { figures, changed_counts } = compareWithBaseline(report, before, 'f');
    const answers = { name: 'bidirectional changed_answers', unit: 'turns', before: 0, now: 1 };
    expect(figures).toContainEqual(expect.objectContaining({ ...answers, movement: 'changed' }));
    expect(changed_counts).toBe(1);
    before.machine.cpu = 'Slide rule';
    expect(movement(report, before, 'bidirectional changed_answers')).toBe('not judged');
    expect(compareWithBaseline(report, before, 'f').changed_counts).toBe(0);
  });

  test('has no number of changed counts if no count was compared', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    for (const { turns } of before.runs) for (const turn of turns) turn.conversation_id += ' of yesterday';
    const baseline = compareWithBaseline(report, before, 'f');
    expect(baseline.changed_counts).toBeNull();
    expect(baselineSentence(baseline)).toMatch(/^No counts were compared;/);
    const gate = evaluateAssertion(parseAssertion('baseline.changed_counts == 0'), { baseline });
    expect(gate).toMatchObject({ passed: false, found: 'found null' });
  });

  test('names the modes that only one of the reports has', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    before.runs.shift();
    report.runs.pop();
    expect(compareWithBaseline(report, before, 'f').differences).toEqual([
      'monolithic is not in the earlier report, and not compared',
      'bidirectional is only in the earlier report, and not compared',
    ]);
  });

  test('reports a time as moved if every turn moved by more than one pass varies, otherwise as noise', async () => {
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
    // Up in some turns, down in others: the interval contains 1 although the mean moved.
    expect(
      movement(
        slowed(report, 'bidirectional', (turn) => (turn % 2 === 0 ? 3 : 0.4)),
        report,
        name,
      ),
    ).toBe('noise');
  });

  test('judges counts but not times if the machines differ, and says so', async () => {
    const report = slowed(await runReport(), 'bidirectional', () => 9);
    const before = await runReport();
    before.machine.cpu = 'Slide rule';
    const baseline = compareWithBaseline(report, before, 'before.json');
    expect(baseline).toMatchObject({ same_machine: false, worse: 0, changed_counts: 0 });
    expect(baseline.differences).toEqual(['another processor: 2 x Abacus 3000, before 2 x Slide rule']);
    expect(movement(report, before, 'bidirectional ttft_ms')).toBe('not judged');
  });

  test('names settings that differ, except where results were written', async () => {
    const report = await runReport();
    const before = structuredClone(report);
    Object.assign(before.config, { threshold: 7, html: 'x.html' });
    expect(compareWithBaseline(report, before, 'f').differences).toEqual(['another threshold: 64, before 7']);
  });

  test.each(runKeys)('names %s if it differs, unless it cannot change results', async (key) => {
    const report = await runReport();
    const before = structuredClone(report);
    Object.assign(before.config, { [key]: 'another' });
    const { differences } = compareWithBaseline(report, before, 'f');
    expect(differences.map((text) => text.split(':')[0])).toEqual(
      OUTPUT_KEYS.has(key) ? [] : [`another ${key}`],
    );
    // The report's page omits the same settings.
    const { pieces } = setUpSection(report, { kind: 'facts', title: '', facts: [] });
    const settings = pieces
      .flatMap((piece) => (piece.kind === 'facts' ? piece.facts : []))
      .map(([name]) => name);
    if (OUTPUT_KEYS.has(key)) expect(settings).not.toContain(key);
  });
});

describe('comparing a benchmark with an earlier one', () => {
  const steady = { rounds: 3, requests: 12 };
  const flat = (uni: number, bi: number) =>
    benchReport({
      ...steady,
      ttft: (mode, round, i) => (mode === 'bidirectional' ? bi : uni) + i + 0.1 * round,
    });

  test('reports a change only if it exceeds the variation between rounds', () => {
    const name = 'prefix_caching_off bidirectional ttft_ms';
    expect(movement(flat(100, 56), flat(100, 50), name)).toBe('worse');
    expect(movement(flat(100, 50), flat(100, 50), name)).toBe('noise');
    const restless = benchReport({ ...steady, ttft: (_, round, i) => 50 + i + 20 * round });
    const moved = benchReport({ ...steady, ttft: (_, round, i) => 56 + i + 20 * round });
    expect(movement(moved, restless, name)).toBe('noise');
  });

  test('compares times of the requests that both answered, judges no counts or ratios, and says so', () => {
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
    expect({ better, changed_counts }).toEqual({ better: 0, changed_counts: null });
    const other = ['prompt_tokens', 'bytes_p_to_d'].map((what) => `prefix_caching_off bidirectional ${what}`);
    for (const name of [...other, 'prefix_caching_off comparison ttft_ms mean ratio'])
      expect(movement(now, before, name)).toBe('not judged');
    expect(differences).toContain(
      'different requests in prefix_caching_off bidirectional: 12, before 18, 12 of them in both; times cover the common ones, and counts are not compared',
    );
  });

  test('compares times and ratios but no sums if the numbers of rounds differ', () => {
    const now = benchReport({ ...steady, rounds: 2, ttft: (_, round, i) => 100 + i + 0.1 * round });
    const before = benchReport({ ...steady, ttft: (_, round, i) => 50 + i + 0.1 * round });
    expect(movement(now, before, 'prefix_caching_off bidirectional ttft_ms')).toBe('worse');
    expect(movement(now, before, 'prefix_caching_off bidirectional prompt_tokens')).toBe('not judged');
    expect(movement(now, before, 'prefix_caching_off comparison ttft_ms mean ratio')).toBe('noise');
  });

  test('reports a ratio as noise if rounds vary by as much, or if a single round may', () => {
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

  test('judges a ratio by the intervals of both reports, even if the machines differ', () => {
    const name = 'prefix_caching_off comparison ttft_ms mean ratio';
    const other = flat(100, 25);
    other.machine.cpu = 'Slide rule';
    expect(movement(flat(100, 50), other, name)).toBe('worse');
    expect(movement(other, flat(100, 50), name)).toBe('better');
    expect(movement(flat(100, 50), flat(100, 50), name)).toBe('noise');
  });
});

describe('a report that cannot be compared is refused with a sentence', () => {
  test('if it is of another kind or another model', async () => {
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
      '{"kvferry":"1","kind":"simulate","schema_version":1}',
      /kind 'simulate', which is rendered by the command that wrote it: give that command --html/,
    ],
    [
      '{"kvferry":"1","kind":"run","schema_version":99}',
      /x.json has layout 99, and this kvferry reads layout 1/,
    ],
    [
      '{"kvferry":"1","kind":"run","schema_version":1}',
      /x.json is not a valid report of kvferry run: created/,
    ],
  ])('if its text is %s', (text, expected) => {
    expect(() => parseReport(text, 'x.json')).toThrow(expected);
  });
});
