/** A turn as an ASCII Gantt chart: one line per stage, from acceptance to the first token. Pure: spans in, lines out. */

import { sumOf } from '../../sum.ts';
import { criticalPath } from './critical-path.ts';
import { type Span, sideOf } from './spans.ts';
import { awaitedPieces, type StageName, stageNames, stagePieces, type TurnWindow } from './stages.ts';

/** Width of a line and of its parts, in columns. */
const WIDTH = 80;
const NAME = 22;
const TIME = 8;
const BAR = WIDTH - NAME - 2 * TIME;
const ON_PATH = '█';
const MEANWHILE = '░';
/** Stages shorter than this share of the whole are summed up in the last line. */
const SHORT = 0.01;

interface Row {
  name: StageName;
  pathMs: number;
  meanwhileMs: number;
  bar: string;
}

export function ganttLines(spans: readonly Span[], window: TurnWindow, title: string): string[] {
  const { acceptedMs, firstTokenMs } = window;
  const totalMs = firstTokenMs - acceptedMs;
  const rows = ganttRows(spans, window);
  const long = rows.filter(({ pathMs, meanwhileMs }) => Math.max(pathMs, meanwhileMs) >= SHORT * totalMs);
  const short = rows.filter((row) => !long.includes(row));
  const alone = onlyEngine(spans, window);
  const shortMs = sumOf(short, ({ pathMs }) => pathMs);
  const line = (name: string, bar: string, pathMs: string, meanwhileMs: string): string =>
    (name.padEnd(NAME) + bar.padEnd(BAR) + pathMs.padStart(TIME) + meanwhileMs.padStart(TIME)).trimEnd();
  return [
    title,
    line('', axis(totalMs), `${ON_PATH} ms`, `${MEANWHILE} ms`),
    ...long.map(({ name, bar, pathMs, meanwhileMs }) =>
      line(stageLabel(name, alone !== null), bar, shown(pathMs), shown(meanwhileMs)),
    ),
    ...(short.length > 0 ? [line(`${short.length} shorter stages`, '', shown(shortMs), '')] : []),
    line('to the first token', '', shown(totalMs), ''),
    `${ON_PATH} the first token waited for this   ${MEANWHILE} done in parallel, at no cost`,
    alone === null
      ? 'P prefills, D generates. D→P: P pulls KV back. P→D: D takes over the KV.'
      : `${alone} prefills and generates.`,
  ];
}

/** The engine that served the turn alone, as in the modes monolithic and decode-local; null: two did. */
function onlyEngine(spans: readonly Span[], { turnId }: TurnWindow): string | null {
  const sides = new Set(spans.map((span) => sideOf(span, turnId)));
  const prefill = spans.find((span) => span.name === 'queue' && sideOf(span, turnId) === 'prefill');
  return sides.has('decode') ? null : (prefill?.engineId ?? null);
}

/** Stages in a turn's order, with the time that the first token waited for (these add up) and the time done in parallel. */
function ganttRows(spans: readonly Span[], window: TurnWindow): Row[] {
  const { acceptedMs, firstTokenMs } = window;
  const pieces = stagePieces(spans, window);
  const path = criticalPath(awaitedPieces(pieces, window), acceptedMs, firstTokenMs);
  const cell = (ms: number): number => ((ms - acceptedMs) / (firstTokenMs - acceptedMs)) * BAR;
  return stageNames.flatMap((name): Row[] => {
    const cells = new Array<string>(BAR).fill(' ');
    const draw = (startMs: number, endMs: number, mark: string): void => {
      const first = Math.max(0, Math.floor(cell(startMs)));
      const last = Math.min(BAR, Math.max(Math.ceil(cell(endMs)), first + 1));
      cells.fill(mark, first, last);
    };
    const own = pieces.filter(({ key, envelope }) => key === name && !envelope);
    const segments = path.filter(({ key }) => (key ?? 'other') === name);
    let spanMs = 0;
    for (const { startMs, endMs } of own) {
      const ms = Math.min(endMs, firstTokenMs) - Math.max(startMs, acceptedMs);
      if (ms <= 0) continue;
      spanMs += ms;
      draw(startMs, endMs, MEANWHILE);
    }
    for (const { startMs, endMs } of segments) draw(startMs, endMs, ON_PATH);
    const pathMs = segments.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);
    if (pathMs === 0 && spanMs === 0) return [];
    return [{ name, pathMs, meanwhileMs: Math.max(0, spanMs - pathMs), bar: cells.join('') }];
  });
}

const WORDS: Partial<Record<StageName, string>> = {
  router: 'router, messages',
  prefill: 'P prefill',
  first_decode_step: 'D first step',
  other: 'other',
};

/** `pull_slab_in` as 'D→P slab in', `queue_p` as 'P queue', or 'queue' if one engine served the turn alone. */
function stageLabel(name: StageName, alone: boolean): string {
  const known = WORDS[name];
  if (known) return alone ? known.replace(/^P /, '') : known;
  const words = name
    .replace(/^pull_/, 'D→P ')
    .replace(/^hand_over_/, 'P→D ')
    .replace(/^load_([pd])_/, (_, side: string) => (alone ? 'store ' : `store→${side.toUpperCase()} `));
  const side = /^(.*)_([pd])$/.exec(words);
  return (side && !alone ? `${side[2]!.toUpperCase()} ${side[1]}` : (side?.[1] ?? words)).replaceAll(
    '_',
    ' ',
  );
}

function axis(totalMs: number): string {
  const end = `${shown(totalMs)} ms`;
  return `0${'·'.repeat(Math.max(0, BAR - 1 - end.length))}${end}`;
}

function shown(ms: number): string {
  if (ms === 0) return '';
  if (ms < 0.05) return '<0.1';
  return ms < 100 ? ms.toFixed(1) : ms.toFixed(0);
}
