import { describe, expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { calibrationDocument } from '../../src/cli/calibrate/calibrate-document.ts';
import { calibrationLines } from '../../src/cli/calibrate/calibrate-output.ts';
import { plainStyle } from '../../src/cli/output/table.ts';
import { type CostProfile, costProfileSchema } from '../../src/config/cost-profile.ts';
import { reportSchema } from '../../src/measure/schemas/report.ts';
import { type FakeWorld, fakeWorld } from './fake.ts';
import type { FakeTroubles } from './fake-cluster.ts';

const kvferry = async (argv: string, world: FakeWorld = fakeWorld()) => ({
  code: await main([...argv.split(' '), '--model', 'nano'], world.deps),
  world,
});

describe('kvferry calibrate', () => {
  it('fits the costs of a machine that computes a token in 1 ms, and writes them as a profile', async () => {
    const { code, world } = await kvferry('calibrate c.json --json all.json');
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const profile = costProfileSchema.parse(JSON.parse(world.files.get('c.json')!));
    // The fake's TTFT is 10 ms plus 1 ms per computed token; it reports 2 ms for a transfer, hidden in the rest.
    expect(profile.prefill.ms_per_token).toBeCloseTo(1, 1);
    expect(profile.pull.fixed_ms).toBeCloseTo(2, 3);
    expect(profile.model).toBe('nano');
    expect(profile.recommended_threshold).toBeLessThan(16);
    expect(world.out()).toContain('Recommended kv_recompute_threshold');
    expect(world.out()).toContain(
      'kvferry run --pull-policy cost-aware --cost-profile c.json --model nano\n',
    );
    for (const line of world.out().split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const all = JSON.parse(world.files.get('all.json')!);
    expect(all.check).toBeNull();
    expect(all.expected_regret.map((row: { threshold: unknown }) => row.threshold)).toContain(64);
    expect(world.clusters[0]!.closed).toBe(1);
  });

  it('warns of a bad fit in the text and on the page, but not because of little variance alone', async () => {
    const { world } = await kvferry('calibrate c.json');
    const { fit, pull, ...profile } = costProfileSchema.parse(JSON.parse(world.files.get('c.json')!));
    const told = (ttft_r2: number, ttft_median_error: number, fixed_ms = pull.fixed_ms) => {
      const fitted = {
        ...{ ...profile, pull: { ...pull, fixed_ms } },
        fit: { ...fit, ttft_r2, ttft_median_error },
      };
      const { verdicts } = calibrationDocument(fitted, [], null);
      return [
        calibrationLines(fitted, [], null, plainStyle).join(' '),
        verdicts.map(({ text }) => text).join(),
      ];
    };
    for (const text of told(-0.474, 0.6)) expect(text).toContain('Do not rely on this profile');
    for (const text of told(0.9, 0.6)) expect(text).not.toContain('Do not rely on this profile');
    // A pull of 10 s against at most half a second of computing, each within 2%.
    for (const text of told(0.1, 0.02, 10_000)) {
      expect(text).not.toContain('Do not rely on this profile');
      expect(text).toContain(
        'at every measured length pulling and recomputing differ by more than that error',
      );
    }
    // Computing takes 1 ms a token, so the ways cross at about 100 tokens and are close around there.
    for (const text of told(0.1, 0.02, 100)) {
      expect(text).not.toContain('Do not rely on this profile');
      expect(text).toMatch(
        /from 9\d to 1[01]\d tokens pulling and recomputing differ by less than that error/,
      );
    }
  });

  it('prints the rates of a fast machine without exponents', async () => {
    const { world } = await kvferry('calibrate c.json');
    const profile = costProfileSchema.parse(JSON.parse(world.files.get('c.json')!));
    const quick = { ...profile, pull: { ...profile.pull, ms_per_byte: 4.5e-7 } };
    expect(calibrationLines(quick, [], null, plainStyle).join('\n')).toContain('(2,222 MB/s)');
  });

  it('prices tokens by what groups use of their blocks, and without windowed groups beyond the windows', async () => {
    const { world } = await kvferry('calibrate c.json');
    const profile = costProfileSchema.parse(JSON.parse(world.files.get('c.json')!));
    const cost = { fixed_ms: 1, ms_per_byte: 0.001, samples: 9 };
    const windowed: CostProfile = {
      ...{ ...profile, block_size: 16, block_bytes: 1600, pull: { ...profile.pull, ms_per_byte: 0.002 } },
      kv_cache_groups: [
        { kind: 'sliding', window: 64 },
        { kind: 'sliding', window: 64, filled: 0.75 },
        { kind: 'full', filled: 0.25 },
      ],
      store: { load: cost, save: cost, folder_read: cost },
    };
    const lines = calibrationLines(windowed, [], null, plainStyle);
    const text = lines.join(' ').replace(/\s+/g, ' ');
    const price = (name: string) => text.match(new RegExp(`${name} [^+]* \\+ (.*?) \\(`))![1];
    expect(price('a pull')).toBe('0.400 ms per token, 0.0500 ms beyond the windows');
    for (const name of ['a load', 'a save', 'its folder'])
      expect(price(name)).toBe('0.200 ms per token, 0.0250 ms beyond the windows');
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });

  it.each([
    ['an engine with a small pool', [{ prefill: 1, decode: [{ blocks: 20 }] }], 64],
    [
      'rolesets with P and D for short prompts only',
      [{ prefill: 1, decode: 1, promptTokens: { max: 60 } }],
      32,
    ],
    [
      'a roleset for long prompts whose engines do both',
      [
        { prefill: 1, decode: 1, promptTokens: { max: 200 } },
        { both: 1, promptTokens: { min: 201 } },
      ],
      128,
    ],
    [
      'rolesets that take the turns of a conversation one after the other',
      [
        { prefill: 1, decode: 1, promptTokens: { max: 20 } },
        { prefill: 1, decode: 1, promptTokens: { min: 21 } },
      ],
      512,
    ],
  ])('measures only lengths that P and D of the fleet take: %s', async (_what, rolesets, most) => {
    const world = fakeWorld();
    world.files.set('fleet.json', JSON.stringify({ rolesets }));
    const { code } = await kvferry('calibrate c.json --fleet fleet.json', world);
    expect([code, world.err()]).toEqual([0, expect.not.stringContaining('kvferry:')]);
    const { fit } = costProfileSchema.parse(JSON.parse(world.files.get('c.json')!));
    expect(fit.most_tokens).toBe(most);
  });

  it.each([
    ['engines that all do both', [{ both: 2 }]],
    ['no P and D for short prompts', [{ prefill: 1, decode: 1, promptTokens: { min: 600 } }]],
  ])('refuses a fleet in which nothing can be pulled: %s', async (_what, rolesets) => {
    const world = fakeWorld();
    world.files.set('fleet.json', JSON.stringify({ rolesets }));
    const { code } = await kvferry('calibrate c.json --fleet fleet.json', world);
    expect(code).toBe(2);
    expect(world.err()).toContain('no P and D that take two lengths of them');
    expect([...world.files.keys()]).toEqual(['fleet.json']);
  });

  it('writes no files and says so if it is interrupted before it has measured enough', async () => {
    const world = fakeWorld();
    let times = 0;
    const now = () => {
      if (++times === 20) world.interrupt();
      return times;
    };
    const argv = 'calibrate c.json --costs-out costs.json --model nano'.split(' ');
    expect(await main(argv, { ...world.deps, now })).toBe(130);
    expect(world.err()).toMatch(/No profile: only \d+ of \d+ turns were measured/);
    expect([...world.files.keys()]).toEqual([]);
  });

  it('keeps the profile if the check is interrupted', async () => {
    const world = fakeWorld();
    const { writeTextFile } = world.deps;
    world.deps.writeTextFile = async (...written) => {
      await writeTextFile(...written);
      world.interrupt();
    };
    const { code } = await kvferry('calibrate c.json --check', world);
    expect(code).toBe(130);
    expect(costProfileSchema.parse(JSON.parse(world.files.get('c.json')!)).model).toBe('nano');
    expect(world.err()).toContain('c.json is written; the check did not finish\n');
  });

  it('compares the policies with --check', async () => {
    const { code, world } = await kvferry('calibrate --check --rounds 2 --json all.json');
    expect(code).toBe(0);
    const { check } = JSON.parse(world.files.get('all.json')!);
    expect(check.threshold).toBe(64);
    expect(check.turns).toHaveLength(12);
    const total = (policy: string) =>
      check.totals.find((each: { policy: string }) => each.policy === policy).totalMs;
    expect(total('always')).toBe(check.bestMs);
    expect(total('never')).toBeGreaterThan(check.bestMs);
    expect(world.out()).toContain('cost-aware ended within 5% of the better choice');
  });

  it('writes its results as a page and as Markdown', async () => {
    const { code, world } = await kvferry('calibrate --check --rounds 2 --html c.html --markdown c.md');
    expect(code).toBe(0);
    const text = world.files.get('c.md')!;
    expect(text).toContain('## kvferry calibrate: Recommended kv\\_recompute\\_threshold');
    expect(text).toContain('cost-aware ended within 5% of the better choice');
    expect(text).toContain('### Policies side by side');
    const page = world.files.get('c.html')!;
    expect(page).toContain('predicted by the fitted costs');
    for (const wrong of ['NaN', 'undefined', 'Infinity']) expect(page).not.toContain(wrong);
  });

  it('refuses the same file for the profile and for costs before anything starts', async () => {
    const { code, world } = await kvferry('calibrate c.json --costs-out ./c.json');
    expect(code).toBe(2);
    expect(world.err()).toContain('--costs-out and the profile both write c.json');
    expect(world.clusters).toHaveLength(0);
  });

  it('refuses a --ttl with which D offers nothing before anything starts, as a sweep does', async () => {
    for (const command of ['calibrate c.json', 'sweep', 'sweep --mode bidirectional']) {
      const { code, world } = await kvferry(`${command} --ttl 5`);
      expect([command, code]).toEqual([command, 2]);
      expect(world.err()).toMatch(/--ttl is 5 s, and D does not offer KV .* give more than 5 s/);
      expect(world.clusters).toHaveLength(0);
    }
    expect((await kvferry('sweep --mode unidirectional --ttl 5 --context 32 --rounds 1')).code).toBe(0);
  });

  it('refuses a connector without peers, of which no pull can be measured, as a sweep does', async () => {
    const json =
      '{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"cpu_bytes_to_use":1048576}}';
    for (const command of ['calibrate c.json', 'sweep']) {
      const { code, world } = await kvferry(`${command} --kv-transfer-config ${json}`);
      expect([command, code]).toEqual([command, 2]);
      expect(world.err()).toContain(
        'no pull can be measured with OffloadingConnector: this connector moves KV through the store',
      );
      expect(world.clusters).toHaveLength(0);
    }
  });

  it('includes the current threshold in the expected regret', async () => {
    const { world } = await kvferry('calibrate --threshold 200 --json all.json');
    const { expected_regret } = JSON.parse(world.files.get('all.json')!);
    expect(expected_regret.map((row: { threshold: unknown }) => row.threshold)).toContain(200);
  });

  it.each(['--html c.html', '--check', '--rounds 3', '--link 10e6', '--block-size 32', '--prefill 2'])(
    'refuses %s with --from-report, which measures nothing',
    async (option) => {
      const world = fakeWorld();
      expect(await main(`calibrate --from-report r.json ${option}`.split(' '), world.deps)).toBe(2);
      expect(world.err()).toContain(`${option.split(' ')[0]} has no effect with --from-report`);
    },
  );

  it('refuses a file that cannot be written before anything starts', async () => {
    for (const argv of ['calibrate /read-only/c.json', 'calibrate --html /read-only/c.html']) {
      const { code, world } = await kvferry(argv);
      expect(code).toBe(2);
      expect(world.clusters).toHaveLength(0);
    }
  });
});

describe('kvferry run with a policy and audits', () => {
  const withProfile = async (troubles: FakeTroubles = {}) => {
    const { world } = await kvferry('calibrate c.json', fakeWorld(troubles));
    return world;
  };

  it('accepts the profile with the command that calibrate printed, whatever it was measured with', async () => {
    const { world } = await kvferry(
      'calibrate c.json --link 10e6,40ms --block-size 32 --kv-dtype f32 --layout layer-pieces',
    );
    const [, command] = /wrote c\.json:\n([\s\S]*)$/.exec(world.out())!;
    const words = command!.replaceAll('\\\n', ' ').trim().split(/\s+/).slice(1);
    expect(await main([...words, '--turns', '3'], world.deps)).toBe(0);
    expect(world.clusters.at(-1)!.settings.connector.nixl.costProfile).toMatchObject({ block_size: 32 });
  });

  it('refuses a fleet file with different links between P and D, of which a profile can name one', async () => {
    const links = [{ between: ['prefill-0', 'decode-1'], link: '10e6,40ms' }];
    const fleet = { rolesets: [{ prefill: 1, decode: 2 }], links };
    const world = fakeWorld({}, { 'fleet.json': JSON.stringify(fleet) });
    const { code } = await kvferry('calibrate c.json --fleet fleet.json', world);
    expect([code, world.clusters]).toEqual([2, []]);
    expect(world.err()).toContain('different links between P and D (none; 10e6,40ms)');

    const pair = (node: string) => ({ name: node, node, prefill: 1, decode: 1 });
    const apart = JSON.stringify({ rolesets: [pair('a'), pair('b')], sameNode: '10e6,40ms' });
    const apartWorld = fakeWorld({}, { 'fleet.json': apart });
    const replicas = 'calibrate c.json --fleet fleet.json --mode-of-fleet replica';
    expect((await kvferry(replicas, apartWorld)).code).toBe(0);
    expect(costProfileSchema.parse(JSON.parse(apartWorld.files.get('c.json')!)).link?.name).toBe('10e6,40ms');
  });

  it('takes the link that a fleet file gives all pairs for the link of the profile', async () => {
    const fleet = { rolesets: [{ node: 'a', prefill: 1, decode: 2 }], sameNode: '10e6,40ms' };
    const world = fakeWorld({}, { 'fleet.json': JSON.stringify(fleet) });
    await kvferry('calibrate c.json --fleet fleet.json', world);
    expect(world.out()).toContain('link 10e6,40ms, throttled (modelled link)');
    expect(world.out()).toContain('--link 10e6,40ms');
    const use = 'run --turns 3 --pull-policy cost-aware --cost-profile c.json';
    expect((await kvferry(use, world)).code).toBe(2);
    expect(world.err()).toContain('modelled link 10000000 bytes/s with 40 ms instead of none');
    expect((await kvferry(`${use} --fleet fleet.json`, world)).code).toBe(0);
    expect((await kvferry(`${use} --link 10e6,40ms`, world)).code).toBe(0);
  });

  it('says that a streamed handover is part of what it measured', async () => {
    const world = fakeWorld();
    await kvferry('calibrate c.json --handover streamed --markdown c.md', world);
    for (const text of [world.out().replaceAll('\n', ' '), world.files.get('c.md')!])
      expect(text).toContain("streamed handover (kvferry's own)");
    expect(costProfileSchema.parse(JSON.parse(world.files.get('c.json')!)).handover).toBe('streamed');
  });

  it('accepts a profile of this machine', async () => {
    const world = await withProfile();
    const { code } = await kvferry('run --turns 3 --pull-policy cost-aware --cost-profile c.json', world);
    expect(code).toBe(0);
    expect(world.clusters.at(-1)!.settings.connector.nixl.costProfile).toMatchObject({ model: 'nano' });
  });

  it('calibrates first if no profile is given, and says so', async () => {
    const { code, world } = await kvferry('run --turns 3 --pull-policy cost-aware');
    expect(code).toBe(0);
    expect(world.err()).toContain('cost-aware without --cost-profile: running a quick calibration first');
    expect(world.clusters[0]!.settings.connector.nixl.costProfile).not.toBeNull();
  });

  it.each([
    [
      '--link 1gbe --pull-policy cost-aware --cost-profile c.json',
      'c.json was measured with modelled link none instead of 125000000 bytes/s',
    ],
    ['--block-size 32 --pull-policy cost-aware --cost-profile c.json', 'block size 16 instead of 32'],
    ['--cost-profile c.json', '--cost-profile is given and --pull-policy is threshold'],
    ['--pull-policy cost-aware --cost-profile none.json', 'cannot read none.json'],
    ['--pull-policy costaware', "--pull-policy is 'costaware': wanted one of threshold, cost-aware"],
    ['--audit 5', "--audit is '5': wanted a share of turns from 0% to 100%"],
    ['--audit 500%', "--audit is '500%'"],
  ])('refuses %s', async (argv, sentence) => {
    const world = await withProfile();
    const { code } = await kvferry(`run ${argv}`, world);
    expect(world.err()).toContain(sentence);
    expect(code).toBe(2);
  });

  it('marks audited turns, and leaves them out of the times of every mode', async () => {
    const { code, world } = await kvferry('run --turns 9 --audit 25% --json out.json');
    expect(world.err()).not.toContain('kvferry:');
    expect(code).toBe(0);
    const report = reportSchema.parse(JSON.parse(world.files.get('out.json')!));
    const both = report.runs.find(({ mode }) => mode === 'bidirectional')!;
    const audited = both.turns.filter(({ audit }) => audit);
    // Of turns 2 to 9: the first, then one in four.
    expect(audited.map(({ turn }) => turn)).toEqual([2, 6]);
    for (const { audit, ttft_ms } of audited) {
      expect(audit).toMatchObject({ chose: 'pull', chosen_ttft_ms: ttft_ms, regret_ms: 0 });
      expect(audit!.other_ttft_ms).toBeGreaterThan(ttft_ms);
    }
    for (const run of report.runs) {
      const timed = run.turns.filter(({ turn }) => turn > 1 && turn !== 2 && turn !== 6);
      const mean = timed.reduce((sum, { ttft_ms }) => sum + ttft_ms, 0) / timed.length;
      expect(run.summary.ttft_later_turns_ms!.mean).toBeCloseTo(mean, 6);
    }
    expect(world.out()).toContain('Audit: 2 turns served both ways');
    expect(world.out()).toContain('audited: the other way took');
  });
});
