/** A stage in words: its name, place, duration, bytes, and the clock that measured it. No DOM. */
import { SPAN_NAMES, type SpanName } from '../../../../src/measure/spans/spans.ts';
import type { Span } from '../../session/types.ts';
import { bytes, ms, plural, rate } from '../format.ts';
import type { DrawnIds } from '../stage/direction.ts';
import { whereOf } from './lanes.ts';

export const CLOCKS: Readonly<Record<Span['clock'], string>> = {
  gpu: 'GPU timestamps',
  host: 'host clock',
  modelled: 'modelled, not measured',
};

export interface SpanWords {
  title: string;
  /** What the time was spent on; null for an unknown name. */
  meaning: string | null;
  where: string;
  took: string;
  /** Bytes and rate; null if nothing was moved. */
  moved: string | null;
  clock: string;
  /** Tokens and chunk, if known. */
  more: string | null;
}

export function describeSpan(span: Span, drawn: DrawnIds): SpanWords {
  const took = span.endMs - span.startMs;
  const moved = typeof span.args.bytes === 'number' && span.args.bytes > 0 ? span.args.bytes : null;
  const tokens = typeof span.args.tokens === 'number' ? span.args.tokens : null;
  const chunk = typeof span.args.chunk === 'number' ? span.args.chunk : null;
  const more = [
    tokens === null ? null : plural(tokens, 'token'),
    chunk === null ? null : `chunk ${chunk + 1}`,
  ];
  const movingMs = typeof span.args.movingMs === 'number' ? span.args.movingMs : took;
  return {
    title: span.name,
    meaning: SPAN_NAMES[span.name as SpanName] ?? null,
    where: whereOf(span, drawn),
    took: ms(took),
    moved: moved === null ? null : `${bytes(moved)}, ${rate(moved, movingMs)}`,
    clock: CLOCKS[span.clock],
    more: more.filter(Boolean).join(', ') || null,
  };
}

export function spanInWords(span: Span, drawn: DrawnIds): string {
  const { title, where, took, moved, clock, more } = describeSpan(span, drawn);
  return `${[`${title} on ${where}`, took, moved, more, clock].filter(Boolean).join('; ')}.`;
}
