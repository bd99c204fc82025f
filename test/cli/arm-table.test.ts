import { expect, it } from 'vitest';
import { plainStyle } from '../../src/cli/output/table.ts';
import { armTable } from '../../src/cli/simulate/arm-table.ts';
import type { SimulatedArm } from '../../src/measure/schemas/simulation-report.ts';
import { right } from '../../src/report/document.ts';
import { widest } from './fake.ts';

const labels = ['bidirectional', 'bidirectional, threshold 64', 'prefix-cache:0.25,least-request:0.75'];

const table = (columns: number): string =>
  armTable(
    right(...Array.from({ length: columns }, (_, i) => `c${i}`)),
    labels.map((label) => ({ label }) as SimulatedArm),
    () => Array.from({ length: columns }, () => '12345'),
    plainStyle,
  ).join('\n');

it('a table names arms in full if they fit; otherwise it shortens them and keeps their thresholds', () => {
  for (const label of labels) expect(table(5)).toContain(label);
  const narrow = table(9);
  expect(narrow).toContain('bidirectional ≥64 ');
  expect(narrow).toContain('prefix-cache:0.25');
  expect(widest(narrow)).toBeLessThanOrEqual(80);
});
