import { describe, expect, it } from 'vitest';
import { printValidation, validationReport } from '../../src/cli/simulate/validate.ts';
import { validationReportSchema } from '../../src/measure/schemas/validation-report.ts';
import { simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { fakeWorld } from './fake.ts';

const arm = (spread: number) => ({
  label: 'bidirectional',
  runs: 5,
  requests: 24,
  failed: 0,
  perRequest: { mape: 0.1, r: 0.9 },
  decisions: { alike: 1, amongReal: 1, counted: 24, asCounted: 24, amongRealCounted: null as number | null },
  figures: [
    {
      ...{ name: 'TTFT mean', unit: 'ms' as const, real: 100, spread, simulated: 104 },
      ...{ error: 0.04, met: true, exact: false },
    },
  ],
});

const printed = (spread: number, decisions = arm(spread).decisions): string => {
  const parts: string[] = [];
  const out = { write: (part: string) => void parts.push(part), isTTY: false, columns: 80 };
  printValidation({ arms: [{ ...arm(spread), decisions }], ranking: { pairs: 0, alike: 0 } }, out, false);
  return parts.join('');
};

describe('what --validate prints', () => {
  it('says so if real runs differ too much to judge by', () => {
    expect(printed(0.05)).not.toContain('cannot be judged');
    expect(printed(0.5)).toContain('±50.0%');
    expect(
      printed(0.5)
        .split('\n')
        .every((line) => line.length <= 80),
    ).toBe(true);
  });

  it('says how much counts depend on which engines are chosen, and compares them by the same choices', () => {
    const decisions = { alike: 0.4, amongReal: 0.5, counted: 120, asCounted: 120, amongRealCounted: null };
    const said = (some: Parameters<typeof printed>[1]) => printed(0.05, some).replaceAll('\n', ' ');
    expect(said(decisions)).toMatch(
      /40.0% of the simulated turns go to the same engines.*two real runs agree on 50.0%/,
    );
    expect(said(decisions)).toContain(
      'all 120 simulated turns have exactly the same hits, pulls and transfers',
    );
    expect(said({ ...decisions, asCounted: 117 })).toContain('117 of 120 simulated turns');
    expect(said({ ...decisions, asCounted: 117 })).toContain(
      "bidirectional: counts with the real runs' choices",
    );
    expect(said({ ...decisions, alike: 1, amongReal: 1 })).not.toContain('same engines');
    // Real runs with the same choices that differ from each other in as many turns.
    const raced = { ...decisions, asCounted: 119, amongRealCounted: 0.98 };
    expect(said(raced)).toContain('119 of 120 simulated turns');
    expect(said(raced)).toContain('two real runs with the same choices agree on 98.0%');
    expect(said(raced)).not.toContain("counts with the real runs' choices");
    expect(said({ ...raced, asCounted: 117 })).toContain("counts with the real runs' choices");
  });
});

describe('what --validate --json writes', () => {
  it('includes the version, the adapter, the time, and how busy the machine was', () => {
    const { deps } = fakeWorld();
    const step = { kvferry_simulation_costs: 1, name: 'mine', source: 'measured', step: {} };
    const measured = {
      file: simulationCostsSchema.parse(step),
      points: 3,
      link: null,
      spread: { median: 0.01, worst: { what: '1 decode at 24 on D', spread: 0.2 } },
      worst: { what: 'prefill of 384 on P', error: -0.1 },
    };
    const adapter = { name: 'llvmpipe', backend: 'vulkan', software: true, features: [] };
    const validation = { arms: [arm(0.05)], ranking: { pairs: 1, alike: 1 } };
    const report = validationReport(
      validation,
      measured,
      { adapter } as unknown as Parameters<typeof validationReport>[2],
      { fleet: '1 P, 1 D', loadBefore: 0.25 },
      { model: 'tiny', seed: 7 } as unknown as Parameters<typeof validationReport>[4],
      deps,
    );
    expect(validationReportSchema.parse(JSON.parse(JSON.stringify(report)))).toMatchObject({
      kvferry: deps.version,
      kind: 'validate',
      created: deps.today(),
      adapter: { name: 'llvmpipe' },
      load_average: { begin: 0.25, end: deps.loadAverage() },
      arms: [{ per_request: { mape: 0.1 }, decisions: { as_counted: 24 } }],
    });
  });
});
