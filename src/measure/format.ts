/**
 * Formats numbers for people: a few significant digits, and a unit unless the context has it. Decimals and unit are chosen
 * after rounding, so that 9.996 is shown as 10.0, like 10.
 */

/** Milliseconds with about three significant digits, no unit. */
export function formatMs(ms: number | null): string {
  if (ms === null) return '-';
  if (ms < 9.995) return ms.toFixed(2);
  return ms < 99.95 ? ms.toFixed(1) : ms.toFixed(0);
}

/** A difference in milliseconds, with its sign. */
export const formatChangeMs = (ms: number): string => `${ms >= 0 ? '+' : '−'}${formatMs(Math.abs(ms))}`;

/** Milliseconds, shown as seconds with the unit. */
export const formatSeconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;

/** Megabytes (10^6 bytes), no unit; '-' for none. */
export function formatMb(bytes: number): string {
  if (bytes === 0) return '-';
  const mb = bytes / 1e6;
  if (mb < 0.9995) return mb.toFixed(3);
  return mb < 99.995 ? mb.toFixed(2) : mb.toFixed(0);
}

/** Gigabytes per second, no unit. */
export function formatGbps(gbps: number | null): string {
  if (gbps === null) return '-';
  if (gbps < 0.001) return '<.001';
  if (gbps < 0.9995) return gbps.toFixed(3);
  return gbps < 99.995 ? gbps.toFixed(2) : gbps.toFixed(0);
}

/** Bytes with a binary unit. */
export function formatBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[unit]}`;
}

/** A share as a percentage; 1 is 100%. */
export const formatPercent = (share: number): string => `${(100 * share).toFixed(1)}%`;

/** Coefficient of determination; one that rounds to zero has no sign. */
export const formatR2 = (r2: number): string => `R² ${(Number(r2.toFixed(3)) || 0).toFixed(3)}`;

/** '4.12 [3.90, 4.31]', or only the value if its interval is unknown. `ends` formats the interval. */
export function formatInterval(
  { value, low, high }: { value: number; low: number | null; high: number | null },
  show: (value: number) => string,
  ends: (value: number) => string = show,
): string {
  if (low === null || high === null) return show(value);
  return `${show(value)} [${ends(low)}, ${ends(high)}]`;
}

/** A relative error with its sign: 0.1 is +10%. */
export const formatError = (error: number): string =>
  `${error >= 0 ? '+' : '−'}${formatPercent(Math.abs(error))}`;

export const formatCount = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

/** Three significant digits without exponents: 0.0123, 52.1, 1,250. */
export const formatFigures = (value: number): string =>
  value >= 999.5
    ? formatCount(Math.round(value))
    : value >= 1e-6 || value <= 0
      ? value.toPrecision(3)
      : small(value);

/** Below this, toPrecision() would write exponents. */
const small = (value: number): string => value.toFixed(Math.min(100, 2 - Math.floor(Math.log10(value))));

/** `1 turn`, `2 turns`. */
export const plural = (n: number, noun: string): string => `${formatCount(n)} ${noun}${n === 1 ? '' : 's'}`;

/** 'a', 'a and b', 'a, b and c'. */
export const listed = (names: readonly string[]): string =>
  [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(Boolean).join(' and ');

/** 1,769,472 as '1.8 M'. */
export function formatParameters(n: number): string {
  if (n >= 999.95e6) return `${(n / 1e9).toFixed(2)} B`;
  return n >= 999_500 ? `${(n / 1e6).toFixed(1)} M` : `${(n / 1e3).toFixed(0)} k`;
}
