/** The section of `run --profile`: kernels per engine, and layers per kernel. */
import { formatCount, formatFigures, formatMs, formatPercent } from '../measure/format.ts';
import type { EngineProfileReport, ProfileReport } from '../measure/spans/profile.ts';
import { left, type Piece, right, type Section, type TablePiece } from './document.ts';

export const RATE_LEGEND =
  'rate: GFLOP/s for kernels bound by arithmetic, else GB/s, counting each operand read and each result write once.';

type Kernel = EngineProfileReport['kernels'][number];

/** The ceilings that an engine's figures are compared with. */
export function ceilingsSentence({ engine_id, clock_step_ns, ceilings }: EngineProfileReport): string {
  const step = clock_step_ns === null ? 'unknown' : `${clock_step_ns} ns`;
  return `${engine_id}: clock resolution ${step}; ceilings, measured right afterwards: ${formatFigures(ceilings.gflops)} GFLOP/s for multiply-adds, ${formatFigures(ceilings.gbps)} GB/s for reads`;
}

export const kernelRate = ({ bound, gflops, gbps }: Kernel): string =>
  bound === 'arithmetic' ? `${formatFigures(gflops)} GFLOP/s` : `${formatFigures(gbps)} GB/s`;

export function profileSection({ mode, engines }: ProfileReport): Section {
  return {
    title: 'Kernels',
    intro: `${mode}, run once more with each kernel in its own pass. This run is slower and does not count in other figures. Times are from the device's clock.`,
    pieces: engines.flatMap((engine): Piece[] => [
      { kind: 'text', text: `${ceilingsSentence(engine)}.` },
      kernelTable(engine),
      layerTable(engine),
    ]),
  };
}

export const KERNEL_COLUMNS: TablePiece['columns'] = [
  left('kernel'),
  ...right('calls', 'ms', 'share', 'rate', 'of ceiling'),
];

const kernelTable = ({ engine_id, kernels }: EngineProfileReport): TablePiece => ({
  kind: 'table',
  title: `${engine_id}: kernels, slowest first`,
  columns: KERNEL_COLUMNS,
  rows: kernels.map((kernel) => [
    { text: kernel.kernel, strong: true },
    formatCount(kernel.calls),
    formatMs(kernel.ms),
    formatPercent(kernel.share),
    kernelRate(kernel),
    `${(100 * kernel.of_ceiling).toFixed(0)}%`,
  ]),
  note: RATE_LEGEND,
});

const layerTable = ({ engine_id, kernels }: EngineProfileReport): TablePiece => ({
  kind: 'table',
  title: `${engine_id}: by layer`,
  folded: true,
  columns: [left('kernel'), ...right('layer', 'calls', 'ms')],
  rows: kernels.flatMap(({ kernel, layers }) =>
    layers.map(({ layer, calls, ms }) => [
      kernel,
      layer === null ? '-' : String(layer),
      formatCount(calls),
      formatMs(ms),
    ]),
  ),
});
