/** The crossover chart on uPlot: two lines, the threshold, and shaded regret. Created once, then given new data. */
import '../../styles/threshold.css';
import '../locale.ts'; // before uPlot
import uPlot from 'uplot';
import type { Crossover } from '../../session/types.ts';
import { font } from '../fonts.ts';
import { timed } from '../frame-meter.ts';
import { type Palette, readPalette } from '../palette.ts';
import { axisIn, followWidth } from './chart-parts.ts';
import { regretPieces } from './crossover-math.ts';

/** High enough for the vertical axis label in large text. */
const heightFor = ({ least }: Palette): number => Math.max(240, 18.5 * least);

export class CrossoverChart {
  readonly #plot: uPlot;
  readonly #resized: ResizeObserver;
  readonly #moved: (handleX: number | null) => void;
  #threshold = 0;
  #palette: Palette = readPalette();

  /** `moved` is called with the threshold's place, in pixels from the holder's left edge; null if it is out of view. */
  constructor(holder: HTMLElement, moved: (handleX: number | null) => void) {
    this.#moved = moved;
    this.#plot = new uPlot(this.#options(holder.clientWidth || 320), [[], [], []], holder);
    this.#resized = followWidth(this.#plot, holder, heightFor(this.#palette));
  }

  #options(width: number): uPlot.Options {
    const axisHere = axisIn(() => this.#palette);
    // Until something is measured, the scale is nobody's.
    const values: uPlot.Axis.DynamicValues = ({ data }, splits) =>
      data[0].length > 0 ? splits.map(uPlot.fmtNum) : splits.map(() => '');
    const axis = (label: string): uPlot.Axis => ({ ...axisHere(label), values });
    const series = (label: string, colour: () => string, dash?: number[]): uPlot.Series => ({
      label,
      stroke: colour,
      width: 2,
      spanGaps: true,
      points: { show: true, size: 6, fill: colour },
      ...(dash ? { dash } : {}),
    });
    return {
      width,
      height: heightFor(this.#palette),
      padding: [14, 10, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: (_, __, most) => [0, Math.max(64, (most || 0) * 1.04)] },
        y: { range: (_, __, most) => [0, Math.max(1, (most || 0) * 1.15)] },
      },
      axes: [
        { ...axis('tokens that D has and P lacks'), size: Math.max(34, 2 * this.#palette.least) },
        { ...axis('time to the first token, ms'), size: Math.max(56, 3.4 * this.#palette.least) },
      ],
      series: [
        {},
        series('pull', () => this.#palette.pull),
        series('compute again', () => this.#palette.p, [6, 4]),
      ],
      hooks: {
        drawClear: [(plot) => timed('crossover', () => this.#shade(plot))],
        draw: [(plot) => timed('crossover', () => this.#labels(plot))],
      },
    };
  }

  show(crossover: Crossover | null, threshold: number): void {
    this.#threshold = threshold;
    this.#palette = readPalette();
    const points = crossover?.points ?? [];
    const data = (['tokens', 'pullMs', 'recomputeMs'] as const).map((key) =>
      points.map((point) => point[key]),
    );
    // Drawn at once: printing does not wait.
    this.#plot.batch(() => this.#plot.setData(data as uPlot.AlignedData));
  }

  /** Tokens at a place; `x` in pixels from the holder's left edge. */
  tokensAt(x: number): number {
    return this.#plot.posToVal(x - this.#plot.over.offsetLeft, 'x');
  }

  destroy(): void {
    this.#resized.disconnect();
    this.#plot.destroy();
  }

  /** Shades the area between the lines where the threshold chooses the slower way. */
  #shade(plot: uPlot): void {
    const [tokens, pull, recompute] = plot.data as [number[], (number | null)[], (number | null)[]];
    const { ctx } = plot;
    const x = (value: number) => plot.valToPos(value, 'x', true);
    const y = (value: number) => plot.valToPos(value, 'y', true);
    ctx.save();
    ctx.fillStyle = this.#palette.bad;
    ctx.globalAlpha = 0.16;
    const corners = tokens.flatMap((at, i) => {
      const [a, b] = [pull[i], recompute[i]];
      return a == null || b == null ? [] : [{ at, a, b }];
    });
    for (let i = 0; i + 1 < corners.length; i++) {
      for (const piece of regretPieces(corners[i]!, corners[i + 1]!, this.#threshold)) {
        ctx.beginPath();
        ctx.moveTo(x(piece[0].at), y(piece[0].a));
        ctx.lineTo(x(piece[1].at), y(piece[1].a));
        ctx.lineTo(x(piece[1].at), y(piece[1].b));
        ctx.lineTo(x(piece[0].at), y(piece[0].b));
        ctx.fill();
      }
    }
    ctx.restore();
    const { left, width } = plot.bbox;
    const at = x(this.#threshold);
    const seen = Number.isFinite(at) && at >= left - 1 && at <= left + width + 1;
    const ratio = globalThis.devicePixelRatio || 1;
    queueMicrotask(() => this.#moved(seen ? at / ratio : null));
  }

  /** Each line's name at its right end. */
  #labels(plot: uPlot): void {
    const ratio = globalThis.devicePixelRatio || 1;
    const { ctx } = plot;
    ctx.save();
    ctx.font = font({ ...this.#palette, least: this.#palette.least * ratio }, 12 * ratio, 600);
    ctx.textAlign = 'right';
    for (const [index, colour] of [
      [1, this.#palette.pullInk],
      [2, this.#palette.pInk],
    ] as const) {
      const values = plot.data[index] as (number | null)[];
      const last = values.findLastIndex((value) => value !== null && value !== undefined);
      if (last < 1) continue;
      ctx.fillStyle = colour;
      const x = plot.valToPos(plot.data[0][last]!, 'x', true);
      const y = plot.valToPos(values[last]!, 'y', true);
      ctx.fillText(plot.series[index]!.label as string, x, y - 10 * ratio);
    }
    ctx.restore();
  }
}
