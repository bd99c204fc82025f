import { expect, it } from 'vitest';
import { main } from '../../src/cli/app.ts';
import { faultJson, faultLines } from '../../src/cli/verify/fault-run.ts';
import { FAULTS, type FaultKind } from '../../src/faults/schedule.ts';
import type { FaultReport } from '../../src/lab/faults/types.ts';
import { faultsReportSchema } from '../../src/measure/schemas/verify-report.ts';
import { fakeWorld } from './fake.ts';

const turns = { right: 12_345, error: 1234, left: 12_345 };
const report: FaultReport = {
  seed: 7,
  pairs: 1,
  faults: 100_000,
  episodes: 33_333,
  turns,
  errors: { engine_dead: 1200, transfer: 34 },
  enginesReplaced: 4321,
  tallies: (Object.keys(FAULTS) as FaultKind[]).map((kind) => ({
    kind,
    times: 12_345,
    turns,
    violations: 0,
  })),
  violations: [],
  ok: true,
};

it('every kind of fault has a row, and no line is longer than 80 columns', () => {
  const lines = faultLines(report, 'auto', '1 h', false);
  for (const name of Object.values(FAULTS))
    expect(lines.filter((line) => line.startsWith(name))).toHaveLength(1);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(80);
  expect(lines.at(-1)).toMatch(/^No wrong token/);
});

it('the JSON says what it is, and names everything in snake_case, as other reports do', () => {
  const violation = { kind: 'blocks held', detail: '', seed: 12, picks: [2], faults: ['a fault'] } as const;
  const json = faultJson({ ...report, violations: [violation] }, '1.2.3', 'lavapipe');
  expect(faultsReportSchema.parse(json)).toEqual(json);
  expect(json).toMatchObject({ engines_replaced: 4321, episodes: 33_333 });
  expect(Object.keys(json).filter((key) => /[A-Z]/.test(key))).toEqual([]);
});

it('a violation is listed with its faults and the command that reproduces it', () => {
  const faults = ['device lost (decode), streaming 4'];
  const violation = {
    kind: 'blocks held',
    detail: 'decode-0: 1 requests hold 2 blocks',
    seed: 12,
    picks: null,
    faults,
  } as const;
  const lines = faultLines({ ...report, violations: [violation], ok: false }, 'lavapipe', '1 s', false);
  expect(lines.slice(-3)).toEqual([
    'blocks held: decode-0: 1 requests hold 2 blocks',
    '  device lost (decode), streaming 4',
    '  kvferry verify --faults 1 --seed 12 --adapter lavapipe',
  ]);
  const shrunk = { ...violation, picks: [2, 3] };
  expect(faultLines({ ...report, violations: [shrunk], ok: false }, 'auto', '1 s', false).at(-1)).toBe(
    '  kvferry verify --faults 1 --seed 12 --fault-picks 2,3',
  );
  const several = { ...report, pairs: 2, violations: [shrunk], ok: false };
  expect(faultLines(several, 'auto', '1 s', false).slice(-1)).toEqual([
    '  kvferry verify --faults 1 --seed 12 --fault-pairs 2 --fault-picks 2,3',
  ]);
});

it('--fault-pairs has no effect without --faults', async () => {
  const world = fakeWorld();
  expect(await main(['verify', '--fault-pairs', '2'], world.deps)).toBe(2);
  expect(world.err()).toContain(
    '--fault-pairs has no effect without faults: give --faults N too, or leave it out',
  );
});

it('--faults refuses --model, because its engines always run nano', async () => {
  const world = fakeWorld();
  expect(await main(['verify', '--faults', '5', '--model', 'tiny'], world.deps)).toBe(2);
  expect(world.err()).toContain('--model has no effect with --faults, which always uses nano');
});
