import { expect, it } from 'vitest';
import {
  formatBytes,
  formatFigures,
  formatGbps,
  formatInterval,
  formatMb,
  formatMs,
  formatParameters,
  formatR2,
  formatSeconds,
  listed,
} from '../../src/measure/format.ts';

it('formatFigures shows three figures without an exponent, however large or small', () => {
  expect([0, 2.56e-9, 9.999e-7, 0.0123, 1.2, 52.14, 999.4, 999.7, 51_400].map(formatFigures)).toEqual([
    '0.00',
    '0.00000000256',
    '0.000001000',
    '0.0123',
    '1.20',
    '52.1',
    '999',
    '1,000',
    '51,400',
  ]);
});

it('formatInterval shows a value with its interval, or alone if it has none', () => {
  const show = (value: number) => value.toFixed(2);
  expect(formatInterval({ value: 4.1, low: 3.9, high: 4.3 }, show)).toBe('4.10 [3.90, 4.30]');
  expect(formatInterval({ value: 4.1, low: 3.9, high: 4.3 }, (n) => `${show(n)}x`, show)).toBe(
    '4.10x [3.90, 4.30]',
  );
  expect(formatInterval({ value: 4.1, low: null, high: 4.3 }, show)).toBe('4.10');
});

it('a value that is rounded up to the next step gets the decimals and unit of that step', () => {
  expect([9.994, 9.996, 10, 99.94, 99.96, 100].map(formatMs)).toEqual([
    ...['9.99', '10.0', '10.0'],
    ...['99.9', '100', '100'],
  ]);
  expect([9994, 9996, 10_000].map(formatSeconds)).toEqual(['9.99 s', '10.0 s', '10.0 s']);
  expect([999_400, 999_600, 1e6, 99.996e6, 1e8].map(formatMb)).toEqual([
    '0.999',
    '1.00',
    '1.00',
    '100',
    '100',
  ]);
  expect([0.9994, 0.9996, 1, 99.996].map(formatGbps)).toEqual(['0.999', '1.00', '1.00', '100']);
  expect([1023, 1024, 2 ** 20 - 60, 2 ** 20 - 1, 2 ** 20, 1536].map(formatBytes)).toEqual([
    ...['1023 bytes', '1 KiB', '1023.9 KiB'],
    ...['1.0 MiB', '1 MiB', '1.5 KiB'],
  ]);
  expect([999_400, 999_600, 1e6, 999_960_000, 1e9].map(formatParameters)).toEqual([
    ...['999 k', '1.0 M', '1.0 M'],
    ...['1.00 B', '1.00 B'],
  ]);
});

it('listed() puts and before the last name', () => {
  expect([[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(listed)).toEqual(['', 'a', 'a and b', 'a, b and c']);
});

it('formatR2 shows three decimals, and no negative zero', () => {
  expect([0.9996, 0.5, -0.0004, -0.0006].map(formatR2)).toEqual([
    'R² 1.000',
    'R² 0.500',
    'R² 0.000',
    'R² -0.001',
  ]);
});
