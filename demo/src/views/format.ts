/** Formats numbers for readers: three significant digits and the unit. */

const digits = (value: number): string => {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(size >= 10 ? 1 : 2).replace(/\.?0+$/, '');
};

export const ms = (value: number): string =>
  value >= 10_000 ? `${digits(value / 1000)} s` : `${digits(value)} ms`;

/** Decimal units, like those of links. */
export function bytes(value: number): string {
  if (value >= 1e9) return `${digits(value / 1e9)} GB`;
  if (value >= 1e6) return `${digits(value / 1e6)} MB`;
  if (value >= 1e3) return `${digits(value / 1e3)} kB`;
  return `${digits(value)} B`;
}

export const rate = (moved: number, inMs: number): string =>
  inMs > 0 ? `${bytes((moved / inMs) * 1000)}/s` : '–';

export const plural = (count: number, one: string): string =>
  `${count.toLocaleString('en-US')} ${one}${count === 1 ? '' : 's'}`;

export const percent = (share: number): string => `${Math.round(100 * share)}%`;

export const times = (ratio: number): string => `${digits(ratio)}×`;

/** '38× slower', '1.3× slower'; null if it would round to 1. */
export function slowerInWords(factor: number): string | null {
  const shown = factor < 2 ? Number(factor.toFixed(1)) : Math.round(factor);
  return shown > 1 ? `${shown.toLocaleString('en-US')}× slower` : null;
}

/** A remaining time: '12 s', '3 min'. */
export function remaining(untilMs: number): string {
  const seconds = Math.max(0, untilMs / 1000);
  return seconds < 100 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
