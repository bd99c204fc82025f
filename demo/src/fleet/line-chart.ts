/** Times to the first token over a fleet's time, on uPlot: lines, the SLO, and events. Created once, then given new data. */
import '../views/locale.ts'; // before uPlot
import uPlot from 'uplot';
import { axisIn, followWidth } from '../views/crossover/chart-parts.ts';
import { font } from '../views/fonts.ts';
import { timed } from '../views/frame-meter.ts';
import { type Palette, readPalette } from '../views/palette.ts';

const HEIGHT = 220;

export interface Line {
  label: string;
  colour: 'p' | 'd' | 'pull' | 'ink' | 'ink2';
  dashed: boolean;
  /** Milliseconds, one for each of the chart's times; null: unknown. */
  values: readonly (number | null)[];
}

export interface Chart {
  /** Whether the time axis is simulated time; otherwise it is wall time. */
  simulated: boolean;
  /** Milliseconds, ascending. */
  timesMs: readonly number[];
  lines: readonly Line[];
  sloMs: number;
  marks: readonly { atMs: number; text: string }[];
}

export class LineChart {
  readonly #plot: uPlot;
  readonly #resized: ResizeObserver;
  readonly #name: string;
  #chart: Chart;
  #palette: Palette = readPalette();

  /** `name`: in the drawing times. Charts passed to show() must have the same number of lines with the same labels. */
  constructor(holder: HTMLElement, name: string, chart: Chart) {
    this.#name = name;
    this.#chart = chart;
    this.#plot = new uPlot(this.#options(holder.clientWidth || 320), this.#data(), holder);
    this.#resized = followWidth(this.#plot, holder, HEIGHT);
  }

  show(chart: Chart): void {
    this.#chart = chart;
    this.#palette = readPalette();
    // Drawn at once: printing does not wait.
    this.#plot.batch(() => timed(this.#name, () => this.#plot.setData(this.#data())));
  }

  destroy(): void {
    this.#resized.disconnect();
    this.#plot.destroy();
  }

  #data(): uPlot.AlignedData {
    const { timesMs, lines } = this.#chart;
    return [timesMs.map((atMs) => atMs / 1000), ...lines.map(({ values }) => [...values])];
  }

  #options(width: number): uPlot.Options {
    const axis = axisIn(() => this.#palette);
    return {
      width,
      height: HEIGHT,
      padding: [14, 10, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: (_, least, most) => [least ?? 0, Math.max((least ?? 0) + 10, most ?? 0)] },
        y: { range: (_, __, most) => [0, 1.15 * Math.max(most ?? 0, 1.1 * this.#chart.sloMs)] },
      },
      axes: [
        {
          ...axis(this.#chart.simulated ? 'simulated time, s' : 'time, s'),
          size: Math.max(34, 2 * this.#palette.least),
        },
        { ...axis('first token, ms'), size: Math.max(56, 3.6 * this.#palette.least) },
      ],
      series: [
        {},
        ...this.#chart.lines.map(
          ({ label, colour, dashed }): uPlot.Series => ({
            label,
            stroke: () => this.#palette[colour],
            width: 2,
            points: { show: false },
            ...(dashed ? { dash: [6, 4] } : {}),
          }),
        ),
      ],
      hooks: { draw: [(plot) => timed(this.#name, () => this.#over(plot))] },
    };
  }

  /** The SLO and the events' marks, with their text where there is room. */
  #over(plot: uPlot): void {
    const ratio = globalThis.devicePixelRatio || 1;
    const { ctx, bbox } = plot;
    const right = bbox.left + bbox.width;
    const palette = this.#palette;
    ctx.save();
    ctx.font = font({ ...this.#palette, least: this.#palette.least * ratio }, 11 * ratio, 600);
    ctx.lineWidth = ratio;
    const y = plot.valToPos(this.#chart.sloMs, 'y', true);
    // The last series may have left its dash pattern.
    ctx.setLineDash([]);
    ctx.strokeStyle = this.#palette.bad;
    stroke(ctx, bbox.left, y, right, y);
    ctx.strokeStyle = this.#palette.ink3;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'top';
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    const marks = this.#chart.marks
      .map(({ atMs, text }) => ({ x: plot.valToPos(atMs / 1000, 'x', true), text }))
      .filter(({ x }) => x >= bbox.left && x <= right);
    for (const { x } of marks) stroke(ctx, x, bbox.top, x, bbox.top + bbox.height);
    // Over all lines, which would go through them.
    let free = bbox.left;
    for (const { x, text } of marks) {
      const long = ctx.measureText(text).width;
      if (x < free || x + long + 6 * ratio > right) continue;
      this.#words(ctx, text, x + 4 * ratio, bbox.top, palette.ink2);
      free = x + long + 12 * ratio;
    }
    ctx.textAlign = 'right';
    ctx.textBaseline = 'bottom';
    this.#words(ctx, `SLO ${this.#chart.sloMs} ms`, right - 4 * ratio, y - 2 * ratio, palette.bad);
    ctx.restore();
  }

  /** Text on a translucent background, so that the lines stay visible. */
  #words(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, colour: string): void {
    const { width, actualBoundingBoxAscent: above, actualBoundingBoxDescent: below } = ctx.measureText(text);
    ctx.fillStyle = this.#palette.surface;
    ctx.globalAlpha = 0.8;
    ctx.fillRect(ctx.textAlign === 'right' ? x - width : x, y - above, width, above + below);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colour;
    ctx.fillText(text, x, y);
  }
}

function stroke(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
