import { describe, expect, it } from 'vitest';
import { printValidation } from '../../src/cli/simulate/validate.ts';

const arm = (spread: number) => ({
  label: 'bidirectional',
  runs: 5,
  requests: 24,
  failed: 0,
  perRequest: { mape: 0.1, r: 0.9 },
  figures: [
    {
      ...{ name: 'TTFT mean', unit: 'ms' as const, real: 100, spread, simulated: 104 },
      ...{ error: 0.04, met: true, exact: false },
    },
  ],
});

const printed = (spread: number): string => {
  const parts: string[] = [];
  const out = { write: (part: string) => void parts.push(part), isTTY: false, columns: 80 };
  printValidation({ arms: [arm(spread)], ranking: { pairs: 0, alike: 0 } }, out, false);
  return parts.join('');
};

describe('what --validate prints', () => {
  it('says when real runs differ too much to judge by', () => {
    expect(printed(0.05)).not.toContain('cannot be judged');
    expect(printed(0.5)).toContain('±50.0% among themselves');
    expect(
      printed(0.5)
        .split('\n')
        .every((line) => line.length <= 80),
    ).toBe(true);
  });
});
