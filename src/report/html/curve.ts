/** Lines over a common axis, with intervals, places on the axis, and the area between two lines. */
import { formatMs } from '../../measure/format.ts';
import type { CurvePiece, Point } from '../document.ts';
import { html, type Markup, nothing } from './markup.ts';
import {
  type Canvas,
  chart,
  type Drawing,
  type Key,
  legend,
  linearScale,
  logScale,
  type Scale,
  seriesClasses,
  xAxis,
  yAxis,
} from './svg.ts';

export function curve(piece: CurvePiece): Markup {
  const ends = piece.series.map(({ name, points }) => {
    const last = points.at(-1);
    return last ? `${name}: ${formatMs(last.y)} at ${last.x}` : `${name}: nothing`;
  });
  const marks = (piece.marks ?? []).map(({ label, x }) => `${label} at ${formatMs(x)}`);
  return chart(piece.title, [...ends, ...marks].join('; '), (canvas) => draw(piece, canvas));
}

function draw(piece: CurvePiece, canvas: Canvas): Drawing {
  const points = piece.series.flatMap((series) => series.points);
  const height = canvas.narrow ? 240 : 320;
  const [left, right, top, bottom] = [44, canvas.width - 14, 26, height];
  const x = scaleOf(
    points.map((point) => point.x),
    piece.x.log === true,
    left,
    right,
    canvas.narrow ? 4 : 9,
  );
  const y = scaleOf(
    points.flatMap((point) => [point.y, point.high ?? point.y]),
    piece.y.log === true,
    bottom,
    top,
    5,
  );
  const colors = seriesClasses(piece.series.map(({ name }) => name));
  const lines = piece.series.map(({ name, points, dashed, band }, i) => {
    const color = colors[i]!;
    const dots = points.map(
      (point) =>
        html`${band ? nothing : whisker(point, x, y, color)}<circle class="${color}" cx="${x(point.x)}" cy="${y(point.y)}" r="${points.length > 40 ? 1.8 : 3}"><title>${name} at ${point.x}: ${formatMs(point.y)}</title></circle>`,
    );
    const pieces = connected(points);
    const areas = band ? pieces.map((some) => area(some, x, y, color)) : nothing;
    const line = pieces.map((some) =>
      path((piece.x.log ? denser(some) : some).map((point) => [x(point.x), y(point.y)])),
    );
    return html`${areas}<path class="line ${color}" ${dashed ? html`stroke-dasharray="5 4"` : nothing} d="${line.join('')}"/>${dots}`;
  });
  const keys: Key[] = piece.series.map(({ name }, i) => ({ label: name, className: colors[i]! }));
  if (piece.shade) keys.push({ label: piece.shade.label, className: 'shade' });
  const names = legend(keys, left, height + 42, canvas.width - left);
  return {
    height: height + 42 + names.height,
    body: [
      yAxis(y, left, right),
      html`<text class="tick" x="0" y="12">${piece.y.label}</text>`,
      xAxis(x, top, bottom, piece.x.label, right),
      shade(piece, x, y),
      ...marks(piece, x, top, bottom, right),
      ...lines,
      names.body,
    ],
  };
}

function scaleOf(values: readonly number[], log: boolean, from: number, to: number, wanted: number): Scale {
  const positive = values.filter((value) => value > 0);
  const max = Math.max(...values, 0);
  if (log && positive.length > 0) return logScale(Math.min(...positive) / 1.1, max * 1.1, from, to);
  return linearScale(max * 1.04, from, to, wanted);
}

/** The points in groups: between groups there is nothing. */
function connected(points: readonly Point[]): readonly Point[][] {
  const groups: Point[][] = [];
  for (const point of points) {
    if (groups.length === 0 || point.apart) groups.push([]);
    groups.at(-1)!.push(point);
  }
  return groups;
}

/** Adds points, so that a straight line between two points is drawn as a curve on a logarithmic axis. */
function denser(points: readonly Point[]): readonly Point[] {
  return points.flatMap((point, i) => {
    const next = points[i + 1];
    if (!next) return [point];
    return Array.from({ length: 16 }, (_, n) => ({
      x: point.x + ((next.x - point.x) * n) / 16,
      y: point.y + ((next.y - point.y) * n) / 16,
    }));
  });
}

const path = (points: readonly (readonly [number, number])[]): string =>
  points.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

function whisker({ x: at, low, high }: Point, x: Scale, y: Scale, color: string): Markup {
  if (low === undefined || high === undefined) return nothing;
  return html`<line class="whisker ${color}" x1="${x(at)}" x2="${x(at)}" y1="${y(low)}" y2="${y(high)}"/>`;
}

function area(points: readonly Point[], x: Scale, y: Scale, color: string): Markup {
  const edge = [
    ...points.map((point) => [x(point.x), y(point.high ?? point.y)] as const),
    ...points.toReversed().map((point) => [x(point.x), y(point.low ?? point.y)] as const),
  ];
  return html`<path class="area ${color}" d="${path(edge)}Z"/>`;
}

function shade(piece: CurvePiece, x: Scale, y: Scale): Markup {
  if (!piece.shade) return nothing;
  const { points } = piece.shade;
  const edge = [
    ...points.map((point) => [x(point.x), y(point.to)] as const),
    ...points.toReversed().map((point) => [x(point.x), y(point.from)] as const),
  ];
  return html`<path class="shade" d="${path(edge)}Z"/>`;
}

function marks(piece: CurvePiece, x: Scale, top: number, bottom: number, right: number): Markup[] {
  return (piece.marks ?? []).map(({ x: at, label, low, high }, i) => {
    const place = x(at);
    const band =
      low !== undefined && high !== undefined
        ? html`<rect class="band" x="${x(low)}" y="${top}" width="${Math.max(1, x(high) - x(low))}" height="${bottom - top}"/>`
        : nothing;
    const isRight = place > (right + 44) / 2;
    return html`${band}<line class="mark" x1="${place}" x2="${place}" y1="${top}" y2="${bottom}"/><text class="strong" x="${place + (isRight ? -6 : 6)}" y="${top + 12 + i * 16}" text-anchor="${isRight ? 'end' : 'start'}">${label}</text>`;
  });
}
