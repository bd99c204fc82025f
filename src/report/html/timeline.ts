/** Draws a timeline, with one lane per engine, link and router. */
import { formatMs, plural } from '../../measure/format.ts';
import type { TimelinePiece } from '../document.ts';
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
  xAxis,
} from './svg.ts';

const BAR = 14;

export function timeline(piece: TimelinePiece): Markup {
  const summary = piece.lanes.map(({ name, bars }) => `${name}: ${plural(bars.length, 'span')}`).join('; ');
  return chart(piece.title, `${formatMs(piece.endMs)} ms. ${summary}`, (canvas) => draw(piece, canvas));
}

function draw({ lanes, marks, endMs }: TimelinePiece, canvas: Canvas): Drawing {
  const left = canvas.narrow ? 0 : labelRoom(lanes.map(({ name }) => name));
  const right = canvas.width - 14;
  const scale = linearScale(endMs, left, right, canvas.narrow ? 4 : 9);
  let top = 24;
  const drawn = lanes.map(({ name, bars }) => {
    const rows = stack(bars);
    const head = canvas.narrow ? 18 : 4;
    const at = top;
    const height = head + (Math.max(0, ...rows) + 1) * (BAR + 2) + 6;
    top += height;
    const drawnBars = bars.map((bar, i) => {
      const y = at + head + rows[i]! * (BAR + 2);
      const width = Math.max(0.8, scale(bar.endMs) - scale(bar.startMs));
      const what = `${bar.label}: ${formatMs(bar.endMs - bar.startMs)} ms from ${formatMs(bar.startMs)}${bar.modelled ? ', modelled' : ''}${bar.detail ? `, ${bar.detail}` : ''}`;
      return html`<rect class="g-${bar.group}${bar.modelled ? ' modelled' : ''}" x="${scale(bar.startMs)}" y="${y}" width="${width}" height="${BAR}" rx="1.5"><title>${what}</title></rect>`;
    });
    return html`<line class="grid" x1="0" x2="${right}" y1="${at - 1}" y2="${at - 1}"/>${nameAt(name, at + (canvas.narrow ? 13 : 15), canvas.narrow ? canvas.width : left - GAP)}${drawnBars}`;
  });
  const lines = marks.map(({ atMs, label }) => {
    const x = scale(atMs);
    const isRight = x > canvas.width / 2;
    return html`<line class="mark" x1="${x}" x2="${x}" y1="8" y2="${top}"/><text class="strong" x="${x + (isRight ? -5 : 5)}" y="14" text-anchor="${isRight ? 'end' : 'start'}">${label}</text>`;
  });
  const groups = [...new Set(lanes.flatMap(({ bars }) => bars.map(({ group }) => group)))];
  const keys = legend(
    groups.map((group) => ({ label: group, className: `g-${group}` })),
    left,
    top + 42,
    canvas.width - left,
  );
  return {
    height: top + 42 + keys.height,
    body: [xAxis(scale, 20, top, 'ms', right), ...drawn, ...lines, keys.body],
  };
}

/** Assigns each bar a row, so that bars do not overlap. */
function stack(bars: readonly { startMs: number; endMs: number }[]): number[] {
  const ends: number[] = [];
  const rows = new Array<number>(bars.length).fill(0);
  const order = bars.map((_, i) => i).toSorted((a, b) => bars[a]!.startMs - bars[b]!.startMs);
  for (const i of order) {
    const { startMs, endMs } = bars[i]!;
    let row = ends.findIndex((end) => end <= startMs + 1e-9);
    if (row < 0) row = ends.length;
    ends[row] = endMs;
    rows[i] = row;
  }
  return rows;
}
