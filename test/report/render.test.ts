import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { CommandSpec } from '../../src/cli/options/arguments.ts';
import { changesResults, fieldMeta, parseRunConfig, runKeys } from '../../src/config/run.ts';
import type { Cluster } from '../../src/fleet/types.ts';
import { makeReport } from '../../src/lab/run-report.ts';
import { figuresOf } from '../../src/measure/judging/baseline-figures.ts';
import type { Machine } from '../../src/measure/schemas/report-head.ts';
import type { AnyReport } from '../../src/measure/schemas/report-kinds.ts';
import { checksOf } from '../../src/report/checks.ts';
import { SETTING_GROUPS, showFigure } from '../../src/report/common.ts';
import type { CurvePiece } from '../../src/report/document.ts';
import { renderHtml } from '../../src/report/html/page.ts';
import { renderJunit } from '../../src/report/junit.ts';
import { renderMarkdown } from '../../src/report/markdown.ts';
import { documentOf } from '../../src/report/render.ts';
import { modelledLinks } from '../../src/report/throttled.ts';
import { agreement, isStreamed, savings, storeUse, windowSavings } from '../../src/report/verdict.ts';
import { benchReport, RUN, runReport } from './reports.ts';

const EVIL = `<script>alert("x")</script><img src="https://e.vil/x.png" onerror='x'> | \`a\` *b*`;

async function evilRun(): Promise<AnyReport> {
  const report = await runReport();
  report.model.name = EVIL;
  report.machine.cpu = EVIL;
  report.config.conversation = EVIL;
  for (const run of report.runs) for (const turn of run.turns) turn.conversation_id = EVIL;
  return report;
}

const piecesOf = (report: AnyReport) => documentFor(report).sections.flatMap(({ pieces }) => pieces);
const documentFor = (report: AnyReport) => documentOf(report, checksOf(report, []), null);
const bench = () =>
  benchReport({
    rounds: 3,
    requests: 9,
    ttft: (mode, round, i) => (mode === 'bidirectional' ? 40 : 90) + i + round,
  });

describe('a rendered report', () => {
  test.each([
    ['run', evilRun],
    ['bench', async () => bench()],
  ])('of %s as a page loads and runs nothing, and has no NaN, undefined or Infinity', async (_, make) => {
    const page = renderHtml(documentFor(await make()));
    expect(page).not.toMatch(/<(script|img|link|iframe|object|embed|base|form)\b/i);
    expect(page).not.toMatch(/\s(src|href|srcset|style|on\w+)=["']/i);
    expect(page).not.toMatch(/url\(|@import|@font-face/i);
    expect(page).not.toContain('NaN');
    expect(page).not.toContain('undefined');
    expect(page).not.toContain('Infinity');
  });

  test('says that the links of a fleet file slowed transfers down, as it does of --link', () => {
    const fleet = {
      rolesets: [
        { prefill: 1, decode: 2, node: 'a' },
        { both: 1, node: 'b' },
      ],
      ...{ sameNode: 'nvlink', acrossNodes: '10gbe' },
      links: [{ between: ['prefill-0', 'decode-1'], link: '10e6,1ms' }],
    };
    const places = 'nvlink within a node; 10gbe across nodes; 10e6,1ms between prefill-0 and decode-1';
    expect(modelledLinks({ link: null, config: { fleet } })).toBe(places);
    expect(modelledLinks({ link: '1gbe', config: { fleet } })).toBe(`1gbe; ${places}`);
    expect(modelledLinks({ link: null, config: { fleet: null } })).toBeNull();
    const apart = { ...fleet, rolesets: [{ prefill: [{ node: 'a' }], decode: 2 }], links: [] };
    expect(modelledLinks({ link: null, config: { fleet: apart } })).toBeNull();
    const report = bench();
    report.config.fleet = fleet;
    expect(renderMarkdown(documentFor(report))).toContain(`throttled (modelled link): ${places}`);
  });

  test('compresses a long name next to bars and dots, but not a short one', () => {
    const long = 'bidirectional, least-request:1,prefix-cache:2';
    const pressed = (name: string): number => {
      const report = bench();
      for (const { modes } of Object.values(report.experiments)) Object.values(modes)[0]!.label = name;
      return (
        renderHtml(documentFor(report)).split(`lengthAdjust="spacingAndGlyphs">${name}</text>`).length - 1
      );
    };
    // Each of these pictures is drawn twice, wide and narrow.
    const pictures = piecesOf(bench()).filter(({ kind }) => kind === 'distribution' || kind === 'stages');
    expect(pressed(long)).toBe(2 * pictures.length);
    expect(pressed('short')).toBe(0);
  });

  test("can show a mode by a name that every object has, which another's report may contain", () => {
    const report = bench();
    for (const { modes } of Object.values(report.experiments))
      Object.values(modes)[0]!.label = 'constructor of toString';
    expect(renderHtml(documentFor(report))).not.toContain('native code');
  });

  test('shows text from users escaped', async () => {
    const page = renderHtml(documentFor(await evilRun()));
    expect(page).toContain('&#60;script&#62;alert(&#34;x&#34;)&#60;/script&#62;');
  });

  test.each([
    [
      [256, 384],
      ['300', '400'],
    ],
    [[300], ['280', '300', '320']],
    [
      [8, 512],
      ['10', '20', '50', '100', '200', '500'],
    ],
  ])('has numbers on a logarithmic axis with points at %j', (places, ticks) => {
    const points = places.map((x) => ({ x, y: x }));
    const piece: CurvePiece = {
      kind: 'curve',
      title: 'TTFT',
      x: { label: 'tokens', log: true },
      y: { label: 'ms' },
      series: [{ name: 'pull', points }],
    };
    const document = { ...documentFor(bench()), sections: [{ title: 'A sweep', pieces: [piece] }] };
    const [, wide = ''] = renderHtml(document).split('<svg');
    const below = [...wide.matchAll(/class="tick"[^>]*text-anchor="middle">([^<]*)</g)].map(
      ([, text]) => text,
    );
    expect(below).toEqual(ticks);
  });

  test('has a content security policy that allows its own style and nothing else', async () => {
    const page = renderHtml(documentFor(await runReport()));
    const style = /<style>([\s\S]*)<\/style>/.exec(page)![1]!;
    const hash = createHash('sha256').update(style).digest('base64');
    expect(page).toContain(`content="default-src 'none'; style-src 'sha256-${hash}'"`);
  });

  test('has a headline for a loss, for nothing pulled, and for modes that disagree', async () => {
    const slow = benchReport({
      rounds: 3,
      requests: 9,
      ttft: (mode) => (mode === 'bidirectional' ? 90 : 40),
    });
    expect(documentFor(slow).headline).toBe(
      'bidirectional is slower here: mean time to the first token 2.25x longer',
    );
    const idle = { rounds: 3, requests: 9, pulled: 0, ttft: (mode: string) => mode.length };
    expect(documentFor(benchReport(idle)).headline).toBe('Nothing was pulled: both modes did the same work');
    const run = await runReport(undefined, { pullsNothing: true });
    expect(documentFor(run).headline).toBe('Nothing was pulled: both modes did the same work');
    const wrong = await runReport(undefined, { wrong: { mode: 'bidirectional', what: 'logits' } });
    expect(documentFor(wrong).headline).toBe('The modes disagree: the figures below are not valid');
    expect(documentFor(wrong).verdicts[0]).toMatchObject({ tone: 'bad' });
  });

  test('does not count KV that a store folder kept between modes as a gain of pulling', async () => {
    const report = await runReport();
    report.config.storeDir = './kv';
    for (const { summary } of report.runs)
      Object.assign(summary, { bytes_from_store: 0, bytes_to_store: 9e6 });
    expect(savings(report)).toContain('saved P');
    expect(storeUse(report)).toMatch(
      /^Store, in bidirectional: 9\.00 MB saved and nothing loaded; it excludes what/,
    );
    report.runs.at(-1)!.summary.bytes_from_store = 5e6;
    expect(savings(report)).toMatch(/^The times of the modes are not compared: --store-dir keeps KV/);
    expect(documentFor(report).headline).toMatch(/bidirectional: results$/);
    expect(piecesOf(report).filter(({ kind }) => kind === 'figures')).toEqual([]);
  });

  test('gives no gains of pulling in its JSON either, if a store folder kept KV between modes', async () => {
    const { runs, integrity } = await runReport();
    const info = { model: {}, engines: [], startMs: 0, link: null, adapter: { features: [] } };
    const cluster = { info } as unknown as Cluster;
    const source = { version: '1', today: () => '', machine: () => ({}) as Machine };
    const gains = (storeDir: string | null, loaded: number) => {
      const store = storeDir === null ? null : 2 ** 20;
      for (const { summary } of runs)
        Object.assign(summary, { bytes_from_store: loaded, bytes_to_store: 9e6 });
      const config = parseRunConfig({ model: 'nano', store, storeDir });
      const report = makeReport(source, config, cluster, { runs, keeper: null, integrity, timeline: null });
      const { ttft_speedup, ttft_ms, ttft_later_turns_ms, computed_tokens_saved, logits_identical } =
        report.comparison!;
      expect(logits_identical).toBe(true);
      expect(savings(report)).toMatch(ttft_speedup ? /saved P/ : /^The times of the modes are not compared/);
      return [ttft_speedup, ttft_ms, ttft_later_turns_ms, computed_tokens_saved];
    };
    expect(gains(null, 5e6)).not.toContain(null);
    expect(gains('./kv', 0)).not.toContain(null);
    expect(gains('./kv', 5e6)).toEqual([null, null, null, null]);
  });

  test('does not count KV from the store as a gain of pulling from D', async () => {
    const report = await runReport();
    for (const { summary } of report.runs) summary.bytes_d_to_p = 0;
    expect(report.runs.at(-1)!.summary.pulled_tokens).toBeGreaterThan(0);
    expect(savings(report)).toMatch(/^Nothing was pulled from D\. .* did the same work\.$/);
    expect(documentFor(report).headline).toBe('Nothing was pulled from D: both modes did the same work');
    expect(piecesOf(report).filter(({ kind }) => kind === 'figures')).toEqual([]);
  });

  test('does not advise a lower threshold if the pull policy is cost-aware', async () => {
    const report = await runReport(undefined, { pullsNothing: true });
    expect(savings(report)).toContain('; lower --threshold');
    report.config.pullPolicy = 'cost-aware';
    expect(savings(report)).toMatch(/same work; no pull was predicted to be faster\.$/);
  });

  test('does not advise a lower threshold, or speak of streaming, if the connector only knows a store', async () => {
    const report = await runReport([...RUN, '--handover', 'streamed'], { pullsNothing: true });
    expect(savings(report)).toContain('; lower --threshold');
    expect(isStreamed(report)).toBe(true);
    report.config.kvTransferConfig = {
      kv_connector: 'OffloadingConnector',
      kv_connector_extra_config: { cpu_bytes_to_use: 1e6 },
    };
    expect(savings(report)).toMatch(/same work; this connector moves KV through the store only/);
    expect(isStreamed(report)).toBe(false);
  });

  test('shows a tie as neither win nor loss, in words and in colour', async () => {
    const close = benchReport({
      rounds: 3,
      requests: 9,
      ttft: (mode, _, i) => 50 + ((i * 7 + mode.length) % 5),
    });
    expect(documentFor(close).headline).toContain('bidirectional makes no difference to unidirectional');
    const even = await runReport();
    const gain = even.comparison!.ttft_later_turns_ms!;
    gain.mean = { reference: 50, candidate: 49.9, ratio: 50 / 49.9 };
    gain.p50 = { reference: 50, candidate: 50.1, ratio: 50 / 50.1 };
    even.comparison!.ttft_speedup = { mean: 50 / 49.9, p50: 50 / 50.1 };
    expect(documentFor(even).headline).toBe('Pulling KV back from D makes no difference to TTFT here');
    expect(savings(even)).toContain('(no difference)');
    for (const report of [close, even]) {
      const figures = documentFor(report)
        .sections.flatMap(({ pieces }) => pieces)
        .flatMap((piece) => (piece.kind === 'figures' ? piece.figures : []))
        .filter(({ label }) => label.includes('TTFT'));
      expect(figures).toHaveLength(2);
      for (const { note, tone } of figures) {
        expect(note).toMatch(/: no difference$/);
        expect(tone).toBe('plain');
      }
    }
  });

  test('has a table of 24 points for a long curve, including the first and the last', () => {
    const points = Array.from({ length: 120 }, (_, x) => ({ x, y: 2 * x }));
    const piece = { kind: 'curve', title: 'C', x: { label: 'x' }, y: { label: 'y' } } as const;
    const frame = { command: 'c', headline: 'h', subtitle: 's', verdicts: [], footer: 'f' };
    const pieces = [{ ...piece, series: [{ name: 'a', points }] }];
    const text = renderMarkdown({ ...frame, sections: [{ title: 't', pieces }] });
    const places = [...text.matchAll(/^\| (\d+) \|/gm)].map(([, place]) => Number(place));
    expect(places).toHaveLength(24);
    expect([places[0], places.at(-1)]).toEqual([0, 119]);
  });

  test('has a table for a curve with steps that gives the value from each step on', () => {
    const points = [0, 0, 5, 5, 9].map((x, i) => ({ x, y: [0, 2, 2, 1, 1][i]! }));
    const piece = { kind: 'curve', title: 'C', x: { label: 'x' }, y: { label: 'y' } } as const;
    const frame = { command: 'c', headline: 'h', subtitle: 's', verdicts: [], footer: 'f' };
    const pieces = [{ ...piece, series: [{ name: 'a', points }] }];
    const text = renderMarkdown({ ...frame, sections: [{ title: 't', pieces }] });
    expect(text.match(/^\| \d \|.*/gm)).toEqual(['| 0 | 2.00 |', '| 5 | 1.00 |', '| 9 | 1.00 |']);
  });

  test('draws no line to a point before which nothing is known', () => {
    const points = [0, 1, 6, 7].map((x) => ({ x, y: x, ...(x === 6 ? { apart: true } : {}) }));
    const piece = { kind: 'curve', title: 'C', x: { label: 'x' }, y: { label: 'y' } } as const;
    const frame = { command: 'c', headline: 'h', subtitle: 's', verdicts: [], footer: 'f' };
    const pieces = [{ ...piece, series: [{ name: 'a', points }] }];
    const [, line] = /class="line [^>]* d="([^"]*)"/.exec(
      renderHtml({ ...frame, sections: [{ title: 't', pieces }] }),
    )!;
    expect(line!.replace(/[^ML]/g, '')).toBe('MLML');
  });

  test('says whether it is of a benchmark or a replay, and if nothing was measured', () => {
    const report = bench();
    const introOf = () => documentFor(report).sections[0]!.intro;
    expect(introOf()).toBe('3 rounds, modes alternating; caches reset and holds drained in between.');
    expect(documentFor(report).command).toBe('kvferry bench');
    const [figures] = piecesOf(report);
    expect(JSON.stringify(figures)).toContain('by bidirectional against unidirectional');
    report.target.kind = 'endpoint';
    report.workload.num_clients = 0;
    expect(introOf()).toBe("3 rounds; the server's caches were kept in between.");
    expect(documentFor(report).command).toBe('kvferry replay');
    report.comparison = null;
    expect(documentFor(report).headline).toBe('No request was answered by two modes');
    report.modes = {};
    expect(documentFor(report).headline).toBe('Nothing was measured');
  });

  test('names compared modes by their labels', () => {
    const report = bench();
    for (const modes of [report.modes, ...Object.values(report.experiments).map((each) => each.modes)]) {
      modes.unidirectional!.label = 'round-robin';
      modes.bidirectional!.label = 'least-request';
    }
    const { headline, sections } = documentFor(report);
    expect(headline).toMatch(/^least-request/);
    const said = JSON.stringify(sections[0]);
    expect(said).toContain('by least-request against round-robin');
    expect(said).toContain('TTFT: round-robin against least-request, request by request');
    expect(said).toContain('"round-robin, ms"');
    expect(said).toContain('Above 1, least-request is faster');
  });

  test('shows each of several policies against the first, and counts wins and losses in the headline', () => {
    const report = bench();
    const [experiment] = Object.values(report.experiments);
    const { ttft_ms, ...rest } = report.comparison!;
    const { tokens_identical: _, first_difference: __, ...pair } = { ...rest, ttft_ms };
    const { mean } = ttft_ms;
    const slower = { ...ttft_ms, mean: { ...mean, ratio: 0.5, low: 0.4, high: 0.6 } };
    const unsure = { ...ttft_ms, mean: { ...mean, ratio: 1.1, low: 0.9, high: 1.2 } };
    experiment!.comparisons = {
      'llm-d': { ...pair, candidate: 'llm-d' },
      dynamo: { ...pair, candidate: 'dynamo', ttft_ms: slower },
      sglang: { ...pair, candidate: 'sglang', ttft_ms: unsure },
    };
    const { headline, sections } = documentFor(report);
    expect(headline).toBe(
      'Mean time to the first token of 3 candidates against unidirectional: 1 faster, 1 slower, 1 with no difference',
    );
    const [figures, , table] = sections[0]!.pieces;
    expect(figures).toMatchObject({
      figures: [
        { label: 'mean TTFT: llm-d against unidirectional', tone: 'good' },
        { value: '0.50x', tone: 'bad' },
        { value: '1.10x', tone: 'plain' },
      ],
    });
    expect(table).toMatchObject({ kind: 'table', rows: { length: 3 } });
    expect(JSON.stringify(table)).toContain('0.50x [0.40x, 0.60x]');
  });

  test('counts a request that failed in an audit round as failed', () => {
    const report = bench();
    const audit = { requests: 3, failed_requests: 1, turns: [] };
    const sums = { slower_choices: 0, regret_ms: 0, better_ttft_ms: 0 };
    for (const experiment of Object.values(report.experiments)) experiment.audit = { ...audit, ...sums };
    const failed = checksOf(report, []).filter(({ passed }) => !passed);
    expect(failed.map(({ message }) => message)).toEqual(['1 request failed']);
  });

  test('gives no verdict in the headline for a handful of requests', () => {
    const few = benchReport({
      rounds: 3,
      requests: 4,
      ttft: (mode) => (mode === 'bidirectional' ? 50 : 100),
    });
    expect(documentFor(few).headline).toBe('bidirectional: mean TTFT 2.00x, too few requests to judge');
  });

  test('compares p99 only from 100 requests on', () => {
    const ratios = (requests: number) => {
      const report = benchReport({
        rounds: 3,
        requests,
        ttft: (mode) => (mode === 'bidirectional' ? 40 : 90),
      });
      const pieces = documentFor(report).sections.flatMap((section) => section.pieces);
      return pieces.flatMap((piece) =>
        piece.kind === 'table' && piece.title.endsWith('request by request')
          ? piece.rows.map(([name]) => name)
          : [],
      );
    };
    const most = ['mean', 'p25', 'p50', 'p75', 'p90'];
    expect(ratios(33)).toEqual(most);
    expect(ratios(34)).toEqual([...most, 'p99']);
  });

  test('has a waterfall whose steps lead from one total to the other', async () => {
    for (const report of [await runReport(), bench()]) {
      const pieces = documentFor(report).sections.flatMap((section) => section.pieces);
      const falls = pieces.filter((piece) => piece.kind === 'waterfall');
      expect(falls).toHaveLength(1);
      for (const { from, to, steps } of falls) {
        const walked = steps.reduce((sum, { change }) => sum + change, from.value);
        expect(walked).toBeCloseTo(to.value, 1);
      }
    }
  });
});

describe('a Markdown report', () => {
  test.each([
    ['run', evilRun],
    ['bench', async () => bench()],
  ])('of %s has all columns in every table row, and no tags from its texts', async (_, make) => {
    const text = renderMarkdown(documentFor(await make()));
    expect(text).not.toMatch(/<(script|img)/);
    const rows = text.split('\n').filter((line) => line.startsWith('|'));
    expect(rows.length).toBeGreaterThan(10);
    let columns = 0;
    for (const [i, row] of rows.entries()) {
      const count = row.replaceAll('\\|', '').split('|').length;
      if (/^\|( :?-+:? \|)+$/.test(rows[i + 1] ?? '')) columns = count;
      expect(count, row).toBe(columns);
    }
  });
});

test('a Markdown report shows comparisons of assertions as they were written', async () => {
  const report = await runReport();
  const [check] = checksOf(report, []);
  const text = renderMarkdown(documentOf(report, [{ ...check!, name: 'a >= 1 & <b> #2' }], null));
  expect(text).toContain('| a &#62;= 1 &#38; &#60;b&#62; \\#2 |');
});

describe('the settings in a report', () => {
  test('are those that the command reads', async () => {
    const text = renderMarkdown(documentFor(await runReport()));
    expect(text).toContain('| threshold | 64 |');
    expect(text).toContain('| turns | 4 |');
    for (const other of ['costs', 'adminPort', 'numClients', 'attainment', 'newTokens'])
      expect(text).not.toContain(`| ${other} |`);
  });

  test.each(Object.entries(SETTING_GROUPS))(
    'of %s are in the groups of its options',
    async (name, groups) => {
      const commands: Record<string, CommandSpec> = await import(`../../src/cli/commands/${name}.ts`);
      const read = new Set(runKeys.filter(changesResults).map((key) => fieldMeta(key).group));
      const ofCommand = commands[`${name}Spec`]!.groups.filter((group) => read.has(group));
      expect([...groups].sort()).toEqual([...ofCommand].sort());
    },
  );
});

describe('a report with extra sections', () => {
  test('lists the kernels and layers of a profile', async () => {
    const report = await runReport();
    const layers = [{ layer: 0, calls: 2, ms: 3 }];
    const kernel = {
      kernel: 'gate and up',
      calls: 2,
      ms: 3,
      share: 0.75,
      gflops: 12,
      gbps: 3,
      bound: 'arithmetic' as const,
      of_ceiling: 0.5,
      layers,
    };
    const ceilings = { gflops: 24, gbps: 9 };
    const engines = [{ engine_id: 'prefill-0', clock_step_ns: 1, ceilings, kernels: [kernel] }];
    const text = renderMarkdown(documentFor({ ...report, profile: { mode: 'bidirectional', engines } }));
    expect(text).toContain('### Kernels');
    expect(text).toContain('| **gate and up** | 2 | 3.00 | 75.0% | 12.0 GFLOP/s | 50% |');
    expect(text).toContain('| gate and up | 0 | 2 | 3.00 |');
  });

  test('lists both times of each audited turn, and no loss where there is no difference', async () => {
    const report = await runReport();
    const [, , both] = report.runs;
    both!.turns[1]!.audit = { chose: 'pull', chosen_ttft_ms: 80, other_ttft_ms: 50, regret_ms: 30 };
    both!.turns[2]!.audit = { chose: 'pull', chosen_ttft_ms: 80.1, other_ttft_ms: 80, regret_ms: 0.1 };
    const text = renderMarkdown(documentFor(report));
    expect(text).toContain('2 turns served both ways; threshold chose the slower way in 1 and lost 30.1 ms');
    expect(text).toContain('| random-1, 2 | pull | 80.0 | 50.0 | 30.0 |');
    expect(text).toContain('| random-1, 3 | pull | 80.1 | 80.0 | no difference |');
    const turns = piecesOf(report).flatMap((piece) =>
      piece.kind === 'distribution' ? piece.series.map(({ values }) => values.length) : [],
    );
    expect(turns, 'those that were not audited in any mode').toEqual([2, 2, 2]);
    expect(figuresOf(report).find(({ name }) => name === 'monolithic ttft_ms')?.samples).toHaveLength(2);
  });

  test('does not call tokens from the store pulled from D', async () => {
    const report = await runReport();
    const both = report.runs.at(-1)!;
    for (const { summary } of report.runs)
      Object.assign(summary, { bytes_from_store: 0, bytes_to_store: 9e6 });
    for (const { transfer } of both.turns) transfer.store_to_p = { ...transfer.d_to_p };
    const text = renderMarkdown(documentFor(report));
    expect(text).toContain('Store, in bidirectional: 9.00 MB saved and nothing loaded');
    expect(text).toContain('tokens pulled from D or the store, and computed tokens');
    const pulled = both.turns.reduce((sum, { pulled_tokens: n }) => sum + n - Math.round(n / 2), 0);
    expect(text).toContain(`| ${pulled} tokens from D |`);
  });
});

test('a report of first turns only has no stages of later turns', async () => {
  const report = await runReport(['run', '--model', 'nano', '--turns', '1']);
  const titles = piecesOf(report).flatMap((piece) => (piece.kind === 'stages' ? [piece.title] : []));
  expect(titles).toEqual(['Mean time to the first token']);
});

test('a crossover compared with a baseline is shown as a whole number of tokens', () => {
  expect([showFigure(291.4321, 'tokens'), showFigure(1234567, 'bytes'), showFigure(1.5, 'x')]).toEqual([
    '291',
    '1,234,567',
    '1.50',
  ]);
});

test('a report says what sliding windows saved, and fails if they change the results', async () => {
  const report = await runReport();
  const costs = (prefill: number, decode: number, moved: number) => {
    return { peak_kv_bytes: { prefill, decode }, bytes_p_to_d: moved, bytes_d_to_p: 0 };
  };
  const windows = {
    mode: 'bidirectional',
    windowed: costs(2 ** 20, 2 ** 20, 2 ** 20),
    all_full: costs(4 * 2 ** 20, 2 ** 20, 2 * 2 ** 20),
    logits_identical: true,
  };
  const sentence =
    'peak KV in use, P 1 MiB instead of 4 MiB (75% less), D 1 MiB either way; transfers 1 MiB instead of 2 MiB (50% less); the same tokens';
  expect(windowSavings(windows, report.config)).toContain(sentence);
  expect(renderMarkdown(documentFor({ ...report, windows }))).toContain(sentence);
  const short = { ...windows, all_full: costs(4 * 2 ** 20, 2 ** 20, 2 ** 20) };
  expect(windowSavings(short, report.config)).toContain(
    'transfers 1 MiB either way: no transfer reached back beyond a window; the same tokens',
  );
  const stored = {
    ...windows,
    windowed: { ...windows.windowed, bytes_from_store: 2 ** 20, bytes_to_store: 2 ** 21 },
    all_full: { ...windows.all_full, bytes_from_store: 4 * 2 ** 20, bytes_to_store: 2 ** 21 },
  };
  expect(windowSavings(stored, report.config)).toContain(
    'transfers 1 MiB instead of 2 MiB (50% less); saved to the store 2 MiB either way; loaded from it 1 MiB instead of 4 MiB (75% less); the same tokens',
  );
  expect(windowSavings(stored, { ...report.config, storeDir: './kv' })).toContain(
    'D 1 MiB either way; transfers are not compared, because --store-dir keeps KV from one run to the next; the same tokens',
  );
  expect(agreement({ ...report, windows }).agree).toBe(true);
  const wrong = { ...report, windows: { ...windows, logits_identical: false } };
  expect(agreement(wrong)).toEqual({ agree: false, sentence: expect.stringContaining('WINDOWS CHANGE') });
  expect(
    checksOf(wrong, [])
      .filter(({ passed }) => !passed)
      .map(({ name }) => name),
  ).toEqual(['sliding windows give the same as keeping all KV, bit for bit']);
  expect(windowSavings(report.windows, report.config)).toBeNull();
});

describe('a JUnit report', () => {
  test('has a case for each check, and a message for each failure', async () => {
    const report = await runReport(undefined, { wrong: { mode: 'bidirectional', what: 'token' } });
    const failing = { text: 'a > "1" && <b>\u0001', passed: false, found: 'found 0' };
    const checks = checksOf(report, [failing, { text: 'c == 1', passed: true, found: 'found 1' }]);
    const xml = renderJunit(checks, {
      suite: 'kvferry run',
      created: report.created,
      properties: [['x', EVIL]],
    });
    expect(xml).toContain('tests="7" failures="3"');
    expect(xml.match(/<testcase /g)).toHaveLength(7);
    expect(xml).toContain('name="a &#62; &#34;1&#34; &#38;&#38; &#60;b&#62;\ufffd"');
    expect(xml).toMatch(
      /<failure message="bidirectional differs from monolithic at conversation random-1, turn 2, output token 1"/,
    );
  });
});
