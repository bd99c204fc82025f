/** Draws stacked bars and waterfalls. */
import { formatChangeMs, formatMs } from '../../measure/format.ts';
import { sum } from '../../sum.ts';
import type { StagesPiece, WaterfallPiece } from '../document.ts';
import { html, type Markup } from './markup.ts';
import {
  type Canvas,
  chart,
  type Drawing,
  GAP,
  labelRoom,
  legend,
  linearScale,
  nameAt,
  roomNextTo,
  seriesClass,
  textWidth,
  xAxis,
} from './svg.ts';

export function stages(piece: StagesPiece): Markup {
  const summary = piece.bars
    .map(({ name, values }) => `${name}: ${formatMs(sum(Object.values(values)))} ${piece.unit}`)
    .join('; ');
  return chart(piece.title, summary, (canvas) => drawStages(piece, canvas));
}

function drawStages({ parts, bars, unit }: StagesPiece, canvas: Canvas): Drawing {
  const left = canvas.narrow ? 0 : labelRoom(bars.map(({ name }) => name));
  const right = canvas.width - (canvas.narrow ? 8 : 70);
  const longest = Math.max(...bars.map(({ values }) => sum(Object.values(values))));
  const scale = linearScale(longest, left, right, canvas.narrow ? 4 : 8);
  const row = canvas.narrow ? 54 : 44;
  const bottom = bars.length * row;
  const drawn = bars.map(({ name, values }, i) => {
    const top = i * row + (canvas.narrow ? 22 : 8);
    let at = 0;
    const cut = parts.map(({ key, label, group }) => {
      const value = values[key] ?? 0;
      const [from, to] = [scale(at), scale(at + value)];
      at += value;
      if (to - from < 0.15) return html``;
      return html`<rect class="g-${group}" x="${from}" y="${top}" width="${Math.max(0.3, to - from - (to - from > 3 ? 0.75 : 0))}" height="26"><title>${name}, ${label}: ${formatMs(value)} ${unit}</title></rect>`;
    });
    const sum = `${formatMs(at)} ${unit}`;
    const labels = canvas.narrow
      ? html`${nameAt(name, top - 7, roomNextTo(sum, canvas))}<text class="strong" x="${canvas.width}" y="${top - 7}" text-anchor="end">${sum}</text>`
      : html`${nameAt(name, top + 17, left - GAP)}<text class="strong" x="${scale(at) + 8}" y="${top + 17}">${sum}</text>`;
    return html`${labels}${cut}`;
  });
  const used = parts.filter(({ key }) => bars.some(({ values }) => scale(values[key] ?? 0) - left >= 0.15));
  const keys = legend(
    used.map(({ label, group }) => ({ label, className: `g-${group}` })),
    left,
    bottom + 44,
    canvas.width - left,
  );
  return {
    height: bottom + 44 + keys.height,
    body: [xAxis(scale, 4, bottom, unit, right), ...drawn, keys.body],
  };
}

export function waterfall(piece: WaterfallPiece): Markup {
  const { from, to, unit } = piece;
  const steps = piece.steps.map(({ label, change }) => `${label} ${formatChangeMs(change)}`).join(', ');
  const summary = `From ${from.name}, ${formatMs(from.value)} ${unit}, to ${to.name}, ${formatMs(to.value)} ${unit}: ${steps}`;
  return chart(piece.title, summary, (canvas) => drawWaterfall(piece, canvas));
}

function drawWaterfall({ from, to, steps, unit }: WaterfallPiece, canvas: Canvas): Drawing {
  let at = from.value;
  const walked = steps.map(({ label, change }) => {
    const before = at;
    at += change;
    return { label, change, low: Math.min(before, at), high: Math.max(before, at), end: at };
  });
  const left = canvas.narrow ? 96 : labelRoom([from.name, to.name, ...steps.map(({ label }) => label)]);
  const right = canvas.width - 70;
  const scale = linearScale(
    Math.max(from.value, to.value, ...walked.map(({ high }) => high)),
    left,
    right,
    canvas.narrow ? 3 : 8,
  );
  const row = 30;
  const whole = ({ name, value }: WaterfallPiece['from'], i: number): Markup => {
    const top = i * row + 5;
    return html`<text class="strong" x="0" y="${top + 14}">${name}</text><rect class="${seriesClass(name, 0)}" x="${left}" y="${top}" width="${Math.max(0.5, scale(value) - left)}" height="20" rx="2"/><text class="strong" x="${scale(value) + 7}" y="${top + 14}">${formatMs(value)}</text>`;
  };
  const body = walked.map(({ label, change, low, high, end }, i) => {
    const top = (i + 1) * row + 5;
    const text = formatChangeMs(change);
    // After the bar, or before it if there is no room after it.
    const behind = scale(high) + 7 + textWidth(text) <= canvas.width;
    const place = behind ? html`x="${scale(high) + 7}"` : html`x="${scale(low) - 7}" text-anchor="end"`;
    return html`<text x="0" y="${top + 14}">${label}</text><line class="link" x1="${scale(end)}" x2="${scale(end)}" y1="${top}" y2="${top + row + 20}"/><rect class="${change > 0 ? 'dearer' : 'saved'}" x="${scale(low)}" y="${top}" width="${Math.max(1, scale(high) - scale(low))}" height="20" rx="2"><title>${label}: ${text} ${unit}</title></rect><text class="${change > 0 ? 'dearer-text' : 'saved-text'}" ${place} y="${top + 14}">${text}</text>`;
  });
  const bottom = (steps.length + 2) * row + 4;
  return {
    height: bottom + 38,
    body: [xAxis(scale, 2, bottom, unit, canvas.width), whole(from, 0), ...body, whole(to, steps.length + 1)],
  };
}
