import { expect, it } from 'vitest';
import { formatFigures, formatInterval } from '../../src/measure/format.ts';

it('three figures without a power of ten, however large', () => {
  expect([0.0123, 1.2, 52.14, 999.4, 999.7, 51_400].map(formatFigures)).toEqual([
    '0.0123',
    '1.20',
    '52.1',
    '999',
    '1,000',
    '51,400',
  ]);
});

it('a value with its interval, and alone where it has none', () => {
  const show = (value: number) => value.toFixed(2);
  expect(formatInterval({ value: 4.1, low: 3.9, high: 4.3 }, show)).toBe('4.10 [3.90, 4.30]');
  expect(formatInterval({ value: 4.1, low: 3.9, high: 4.3 }, (n) => `${show(n)}x`, show)).toBe(
    '4.10x [3.90, 4.30]',
  );
  expect(formatInterval({ value: 4.1, low: null, high: 4.3 }, show)).toBe('4.10');
});
