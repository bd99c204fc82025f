import { describe, expect, test } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { InternalError } from '../../src/errors.ts';
import { RUN } from '../report/reports.ts';
import { fakeWorld, widest } from './fake.ts';

const saved = async (argv: string[] = []): Promise<string> => {
  const world = fakeWorld();
  await main([...RUN, '--json', ...argv], world.deps);
  return world.out();
};

describe('--assert and output files', () => {
  test('judge and list all assertions, and exit with 3 if one fails', async () => {
    const world = fakeWorld();
    const asserts = [
      'comparison.tokens_identical == true',
      'comparison.ttft_ms.mean.ratio >= 100',
      'runs.bidirectional.summary.pulled_tokens > 0',
    ].flatMap((text) => ['--assert', text]);
    expect(await main([...RUN, ...asserts], world.deps)).toBe(3);
    const out = world.out();
    expect(out).toContain('ok      comparison.tokens_identical == true: found true');
    expect(out).toMatch(/FAILED {2}comparison.ttft_ms.mean.ratio >= 100: found \d\.\d+/);
    expect(out).toMatch(/ok {6}runs.bidirectional.summary.pulled_tokens > 0: found \d+/);
    expect(out).toContain('1 of 3 assertions failed.');
    expect(widest(out)).toBeLessThanOrEqual(80);
  });

  test('exit with 0 if all assertions hold', async () => {
    const world = fakeWorld();
    expect(await main([...RUN, '--assert', 'integrity.leftover_blocks == 0'], world.deps)).toBe(0);
    expect(world.out()).toContain('The assertion holds.');
  });

  test('exit with 1 if modes disagree, whatever was asserted', async () => {
    const world = fakeWorld({ wrong: { mode: 'bidirectional', what: 'token' } });
    expect(await main([...RUN, '--assert', 'comparison.tokens_identical == true'], world.deps)).toBe(1);
    expect(world.out()).toContain('FAILED  comparison.tokens_identical == true: found false');
  });

  test.each([
    [['--assert', 'comparison.tokens_identica == true'], /did you mean tokens_identical/],
    [['--assert', 'comparison.tokens_identical'], /is not an operator/],
    [['--assert', 'baseline.worse == 0'], /uses the baseline, and none is given: give --baseline FILE/],
    [['--assert'], /--assert has no value/],
    [['--assert', ''], /--assert is '': wanted a comparison, such as/],
    [['--json='], /--json is '': wanted true, false or the name of a file; or leave it out/],
    [['--html', '/read-only/x.html'], /cannot write \/read-only\/x.html/],
    [['--markdown', '/read-only/x.md'], /cannot write \/read-only\/x.md/],
    [['--junit', '/read-only/x.xml'], /cannot write \/read-only\/x.xml/],
    [['--html', 'x', '--json', './x'], /--json and --html both write x/],
    [['--record', 'x', '--trace-out', 'x'], /--record and --trace-out both write x/],
    [['--baseline', 'gone.json'], /cannot read gone.json/],
  ])('refuse %j before anything starts', async (argv, expected) => {
    const world = fakeWorld();
    expect(await main([...RUN, ...argv], world.deps)).toBe(2);
    expect(world.err()).toMatch(expected);
    expect(world.err().trimEnd().split('\n')).toHaveLength(1);
    expect(world.clusters).toHaveLength(0);
  });
});

describe('--baseline', () => {
  test('finds that nothing moved in the same run again, which assertions can check', async () => {
    const world = fakeWorld({}, { 'before.json': await saved() });
    const argv = [
      '--baseline',
      'before.json',
      '--assert',
      'baseline.changed_counts == 0',
      '--assert',
      'baseline.worse == 0',
    ];
    const same = 'comparison.ttft_ms.mean.ratio >= 0.99 * baseline.report.comparison.ttft_ms.mean.ratio';
    expect(await main([...RUN, ...argv, '--assert', same], world.deps)).toBe(0);
    expect(world.out()).toContain('compared with the baseline before.json, from 2026-01-02');
    expect(world.out().replaceAll('\n', ' ')).toMatch(
      /All \d+ counts are the same; of \d+ times, 0 better, 0 worse/,
    );
  });

  test('names another threshold and the counts that changed', async () => {
    const world = fakeWorld({ pullsNothing: true }, { 'before.json': await saved() });
    expect(
      await main(
        [...RUN, '--threshold', '9', '--baseline', 'before.json', '--assert', 'baseline.changed_counts == 0'],
        world.deps,
      ),
    ).toBe(3);
    expect(world.out()).toContain('another threshold: 9, before 64');
    expect(world.out()).toMatch(/bidirectional pulled_tokens +\d+ +0 .* changed/);
    expect(widest(world.out())).toBeLessThanOrEqual(80);
  });

  test('refuses a report of another model before the run', async () => {
    const world = fakeWorld({}, { 'before.json': await saved() });
    expect(await main(['run', '--model', 'tiny', '--baseline', 'before.json'], world.deps)).toBe(2);
    expect(world.err()).toContain('measured with the model nano and this is tiny');
    expect(world.clusters).toHaveLength(0);
  });
});

describe('report files', () => {
  test('are all written, and state a failed integrity check before the run fails', async () => {
    const world = fakeWorld({ integrityFails: new InternalError('block 7 is used twice') });
    const argv = ['--html', 'r.html', '--markdown', 'r.md', '--junit', 'r.xml', '--json', 'r.json'];
    expect(await main([...RUN, ...argv], world.deps)).toBe(1);
    expect(world.files.get('r.html')).toContain('block 7 is used twice');
    expect(world.files.get('r.md')).toContain('block 7 is used twice');
    expect(world.files.get('r.xml')).toMatch(/<failure message="block 7 is used twice"/);
    expect(JSON.parse(world.files.get('r.json')!).integrity).toMatchObject({ ok: false });
    expect(world.err()).toContain('block 7 is used twice');
  });
});

describe('kvferry report', () => {
  test('shows a saved report again without an engine', async () => {
    const world = fakeWorld({}, { 'r.json': await saved() });
    expect(
      await main(['report', 'r.json', '--html', 'r.html', '--assert', 'runs.length == 3'], world.deps),
    ).toBe(0);
    expect(world.clusters).toHaveLength(0);
    expect(world.files.get('r.html')).toContain('<!doctype html>');
    expect(world.out()).toContain('wrote r.html');
    expect(world.out()).toContain('ok      runs.length == 3: found 3');
  });

  test('exits with 1 for a report whose modes disagree', async () => {
    const broken = fakeWorld({ wrong: { mode: 'bidirectional', what: 'logits' } });
    await main([...RUN, '--json', 'r.json'], broken.deps);
    const world = fakeWorld({}, { 'r.json': broken.files.get('r.json')! });
    expect(await main(['report', 'r.json'], world.deps)).toBe(1);
    expect(world.out()).toContain('FAILED: every mode gives the same logits');
  });

  test.each([
    [['report'], /no report is given/],
    [['report', 'gone.json'], /cannot read gone.json/],
    [['report', 'r.json', '--threshold', '3'], /--threshold is an option of kvferry/],
  ])('refuses %j', async (argv, expected) => {
    const world = fakeWorld({}, { 'r.json': await saved() });
    expect(await main(argv, world.deps)).toBe(2);
    expect(world.err()).toMatch(expected);
  });
});

describe('an output file', () => {
  const files = {
    ...{ 'w.json': '{}', 't.jsonl': '{}', 'mine.json': '{}', 'all.json': '{}' },
    'fleet.json': '{"rolesets": [{"prefill": 1, "decode": 1}]}',
  };
  test.each([
    ['simulate w.json --json ./w.json', '--json would overwrite w.json, which is an input'],
    ['bench w.json --html w.json', '--html would overwrite w.json'],
    ['simulate --trace t.jsonl --markdown t.jsonl', '--markdown would overwrite t.jsonl'],
    ['replay t.jsonl --json t.jsonl', '--json would overwrite t.jsonl'],
    ['trace info t.jsonl --json t.jsonl', '--json would overwrite t.jsonl'],
    ['simulate --costs ./mine.json --json mine.json', '--json would overwrite ./mine.json'],
    ['run --config all.json --json all.json', '--json would overwrite all.json'],
    ['report all.json --html all.json', '--html would overwrite all.json'],
    ['calibrate all.json --from-report ./all.json', 'the profile would overwrite ./all.json'],
    ['run --conversation w.json --record w.json', '--record would overwrite w.json'],
    ['simulate --fleet fleet.json --json ./fleet.json', '--json would overwrite fleet.json'],
    ['bench --routing-config all.json --html all.json', '--html would overwrite all.json'],
    [
      'simulate --autoscale k8s-hpa --autoscale-config all.json --json all.json',
      '--json would overwrite all.json',
    ],
    ['calibrate all.json --config all.json', 'the profile would overwrite all.json'],
    ['trace convert t.jsonl all.json --config all.json', 'OUT would overwrite all.json'],
  ])('may not overwrite an input: %s', async (argv, said) => {
    const world = fakeWorld({}, files);
    expect(await main(argv.split(' '), world.deps)).toBe(2);
    expect(world.err()).toContain(said);
    expect(Object.fromEntries(world.files)).toEqual(files);
  });

  test('may not overwrite another output', async () => {
    const world = fakeWorld({}, files);
    expect(await main('trace convert t.jsonl out.jsonl --json ./out.jsonl'.split(' '), world.deps)).toBe(2);
    expect(world.err()).toContain('--json and OUT both write out.jsonl');
  });

  test('may not overwrite another output under the name of a link', async () => {
    const { deps, err } = fakeWorld();
    const linked = { ...deps, plainFileId: async () => 'one file' };
    expect(await main([...RUN, '--json', 'out.json', '--html', 'link'], linked)).toBe(2);
    expect(err()).toContain('--json and --html both write link');
  });

  test('may overwrite the baseline, so that the next run is compared with this one', async () => {
    const world = fakeWorld({}, { 'before.json': await saved() });
    const argv = [...RUN, '--baseline', 'before.json', '--json', 'before.json'];
    expect(await main(argv, world.deps)).toBe(0);
    expect(world.files.get('before.json')).toContain('"baseline"');
  });
});

test.each([
  ['run', RUN],
  ['sweep', ['sweep', '--model', 'nano', '--context', '16,32', '--rounds', '1']],
])("reports of %s do not contain the server's keys", async (_, argv) => {
  const world = fakeWorld({}, { 'all.json': JSON.stringify({ apiKey: 'hush-hush', adminKey: 'hush-hush' }) });
  const files = ['--json', 'r.json', '--html', 'r.html'];
  expect(await main([...argv, '--config', 'all.json', ...files], world.deps)).toBe(0);
  for (const file of ['r.json', 'r.html']) expect(world.files.get(file)).not.toContain('hush-hush');
});
