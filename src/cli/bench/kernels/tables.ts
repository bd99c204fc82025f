/** The tables of `npm run bench:kernels`, of at most 80 columns with any kernel form's name. */
import type { Ceilings } from '../../../gpu/ceilings.ts';
import { formatGbps, formatMs } from '../../../measure/format.ts';
import { median } from '../../../measure/statistics.ts';
import { left, right } from '../../../report/document.ts';
import { plainStyle, renderTable } from '../../output/table.ts';
import type { AttentionFigure } from './attention.ts';
import type { MatrixFigure } from './matrices.ts';

/** The same product in both arithmetics. */
export interface HalvesFigure {
  f32: MatrixFigure;
  f16: MatrixFigure;
}

/** Attention with a window at the end of a long context, and over a context of the window's length. */
export interface WindowFigure {
  windowed: AttentionFigure;
  full: AttentionFigure;
}

/** A kernel's speed, absolute and relative to the adapter's ceiling. */
const SPEED_COLUMNS = right('ms', 'GFLOP/s', 'of', 'GB/s', 'of');

function percent(part: number, total: number): string {
  return `${((100 * part) / total).toFixed(0)}%`;
}

function middle(ms: readonly number[]): string {
  return `[${formatMs(median(ms))}]`;
}

function speed(
  { ms, gflops }: { ms: readonly number[]; gflops: number },
  gbps: number,
  ceilings: Ceilings,
): string[] {
  return [
    middle(ms),
    gflops.toFixed(1),
    percent(gflops, ceilings.gflops),
    formatGbps(gbps),
    percent(gbps, ceilings.readGbps),
  ];
}

export function matrixTable(figures: readonly MatrixFigure[], ceilings: Ceilings): string[] {
  const columns = [
    left('matrix'),
    left('MxKxN'),
    left('kernel, rows'),
    ...SPEED_COLUMNS,
    ...right('of read'),
  ];
  const rows = figures.map((f) => {
    const ofRead = f.readGbps === null ? '' : percent(f.weightGbps, f.readGbps);
    return [f.name, `${f.m}x${f.k}x${f.n}`, f.kernel, ...speed(f, f.weightGbps, ceilings), ofRead];
  });
  return renderTable(columns, rows, plainStyle);
}

export function halvesTable(figures: readonly HalvesFigure[]): string[] {
  const columns = [left('in f16'), left('MxKxN'), left('kernel, rows'), ...right('ms', 'f32 ms', 'ratio')];
  const rows = figures.map(({ f32, f16 }) => {
    const [mine, other] = [median(f16.ms), median(f32.ms)];
    const { name, m, k, n, kernel } = f16;
    return [name, `${m}x${k}x${n}`, kernel, middle(f16.ms), middle(f32.ms), (mine / other).toFixed(2)];
  });
  return renderTable(columns, rows, plainStyle);
}

export function attentionTable(figures: readonly AttentionFigure[], ceilings: Ceilings): string[] {
  const rows = figures.map((f) => [
    `${f.rows} at ${f.context}, dim ${f.headDim}`,
    f.kernel,
    ...speed(f, f.kvGbps, ceilings),
  ]);
  return renderTable([left('attention'), left('kernel, rows'), ...SPEED_COLUMNS], rows, plainStyle);
}

export function windowTable(figures: readonly WindowFigure[]): string[] {
  const columns = [
    left('attention'),
    left('window'),
    left('kernel, rows'),
    ...right('ms', 'full ms', 'ratio'),
  ];
  const rows = figures.map(({ windowed, full }) => {
    const [mine, other] = [Math.min(...windowed.ms), Math.min(...full.ms)];
    const { rows, context, headDim, window, kernel } = windowed;
    return [
      `${rows} at ${context}, dim ${headDim}`,
      String(window),
      kernel,
      formatMs(mine),
      formatMs(other),
      (mine / other).toFixed(2),
    ];
  });
  return renderTable(columns, rows, plainStyle);
}

/** The largest difference from float64 in each table. */
export function errorLine(figures: {
  matrices: readonly MatrixFigure[];
  halves: readonly HalvesFigure[];
  attention: readonly AttentionFigure[];
  windows: readonly WindowFigure[];
}): string {
  const largest = (of: readonly { error: number }[]): string =>
    Math.max(...of.map(({ error }) => error)).toExponential(0);
  const parts = [
    `matrices ${largest(figures.matrices)}`,
    ...(figures.halves.length > 0 ? [`in f16 ${largest(figures.halves.map(({ f16 }) => f16))}`] : []),
    `attention ${largest(figures.attention)}`,
    `with a window ${largest(figures.windows.map(({ windowed }) => windowed))}`,
  ];
  return `largest error against float64: ${parts.join(', ')}`;
}
