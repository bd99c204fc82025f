/** Draws every sample as a dot, one lane per series, with the quartiles below. */
import { extent } from 'simple-statistics';
import { formatMs } from '../../measure/format.ts';
import { quantile, sortedQuantile } from '../../measure/statistics.ts';
import { type DistributionPiece, evenly } from '../document.ts';
import { html, type Markup } from './markup.ts';
import {
  type Canvas,
  chart,
  type Drawing,
  GAP,
  labelRoom,
  linearScale,
  logScale,
  nameAt,
  roomNextTo,
  seriesClass,
  xAxis,
} from './svg.ts';

const MOST_DOTS = 400;
const ROW = 64;

export function distribution(piece: DistributionPiece): Markup {
  const series = piece.series.filter(({ values }) => values.length > 0);
  const summary = series
    .map(
      ({ name, values }) =>
        `${name}: median ${formatMs(quantile(values, 0.5))} ${piece.unit} of ${values.length}`,
    )
    .join('; ');
  return chart(piece.title, summary, (canvas) => draw(piece, series, canvas));
}

function draw({ unit }: DistributionPiece, series: DistributionPiece['series'], canvas: Canvas): Drawing {
  const all = series.flatMap(({ values }) => values);
  const [least, most] = all.length > 0 ? extent(all) : [0, 1];
  const left = canvas.narrow ? 8 : labelRoom(series.map(({ name }) => name));
  const right = canvas.width - 12;
  const isLog = least > 0 && most / least > 12;
  const scale = isLog
    ? logScale(least / 1.1, most * 1.05, left, right)
    : linearScale(most * 1.05, left, right, canvas.narrow ? 4 : 8);
  const row = canvas.narrow ? ROW + 16 : ROW;
  const bottom = series.length * row + 6;
  const lanes = series.map(({ name, values }, i) =>
    lane(name, values, i * row, seriesClass(name, i), scale, unit, canvas, left),
  );
  return {
    height: bottom + 38,
    body: [xAxis(scale, 4, bottom, isLog ? `${unit}, logarithmic` : unit, right), ...lanes],
  };
}

function lane(
  name: string,
  values: readonly number[],
  top: number,
  color: string,
  x: (value: number) => number,
  unit: string,
  canvas: Canvas,
  left: number,
): Markup {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (q: number): number => sortedQuantile(sorted, q);
  const [q1, median, q3] = [at(0.25), at(0.5), at(0.75)];
  const dotsAt = top + (canvas.narrow ? 36 : 22);
  const boxAt = dotsAt + 17;
  const dots = pile(thin(values).map(x)).map(
    ({ at, level }) =>
      html`<circle class="${color}" cx="${at}" cy="${dotsAt - level * 4}" r="3.2" fill-opacity="0.62"/>`,
  );
  const title = `${name}: quartiles ${formatMs(q1)}, ${formatMs(median)}, ${formatMs(q3)} ${unit}`;
  const middle = `median ${formatMs(median)} ${unit}`;
  const label = canvas.narrow
    ? html`${nameAt(name, top + 14, roomNextTo(middle, canvas))}<text class="muted" x="${canvas.width}" y="${top + 14}" text-anchor="end">${middle}</text>`
    : html`${nameAt(name, dotsAt + 2, left - GAP)}<text class="muted" x="0" y="${dotsAt + 19}">median ${formatMs(median)}</text>`;
  return html`<g><title>${title}</title>${label}${dots}<line class="whisker ${color}" x1="${x(at(0))}" x2="${x(at(1))}" y1="${boxAt}" y2="${boxAt}"/><rect class="${color}" x="${x(q1)}" y="${boxAt - 5}" width="${Math.max(1.5, x(q3) - x(q1))}" height="10" rx="2"/><line class="median" x1="${x(median)}" x2="${x(median)}" y1="${boxAt - 8}" y2="${boxAt + 8}"/></g>`;
}

function thin(values: readonly number[]): readonly number[] {
  return evenly(
    values.toSorted((a, b) => a - b),
    MOST_DOTS,
  );
}

/** Stacks dots that would overlap, at most five high. */
function pile(places: readonly number[]): { at: number; level: number }[] {
  const lastAt: number[] = [];
  return places.map((at) => {
    let level = lastAt.findIndex((last) => at - last >= 6.5);
    if (level < 0) level = lastAt.length < 5 ? lastAt.length : 0;
    lastAt[level] = at;
    return { at, level };
  });
}
