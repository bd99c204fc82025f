/**
 * The document model between reports and their rendering: sections of neutral pieces. run.ts, bench.ts and sweep.ts build
 * documents; html/ and markdown.ts render them. Texts are plain; the renderers escape them.
 */
import type { Outcome } from '../measure/outcome.ts';

export type Tone = 'good' | 'bad' | 'plain';

export const TONE_OF: Readonly<Record<Outcome, Tone>> = { ahead: 'good', behind: 'bad', tie: 'plain' };

export type Cell = string | { text: string; tone?: Tone; strong?: boolean };

export interface Column {
  head: string;
  /** Default: right, for numbers. */
  align?: 'left' | 'right';
  /** Adjacent columns of the same group share this heading. */
  group?: string;
}

export const left = (head: string): Column => ({ head, align: 'left' });
export const right = (...heads: string[]): Column[] => heads.map((head) => ({ head }));
export const under = (group: string, ...heads: string[]): Column[] => heads.map((head) => ({ head, group }));

export interface TablePiece {
  kind: 'table';
  title: string;
  /** Hide the title, because the section's title is the same. */
  quiet?: boolean;
  columns: readonly Column[];
  rows: readonly (readonly Cell[])[];
  note?: string;
  /** Collapsed at first. */
  folded?: boolean;
}

/** Every sample of each series, with its quartiles. */
export interface DistributionPiece {
  kind: 'distribution';
  title: string;
  unit: string;
  series: readonly { name: string; values: readonly number[] }[];
  note?: string;
}

/** Stacked bars on one scale. */
export interface StagesPiece {
  kind: 'stages';
  title: string;
  unit: string;
  parts: readonly { key: string; label: string; group: string }[];
  bars: readonly { name: string; values: Readonly<Record<string, number>>; note?: string }[];
  note?: string;
}

/** The way from one total to another, by what each step saved or added. */
export interface WaterfallPiece {
  kind: 'waterfall';
  title: string;
  unit: string;
  from: { name: string; value: number };
  to: { name: string; value: number };
  /** Positive: slower. The changes add up to the difference of the totals. */
  steps: readonly { label: string; change: number }[];
  note?: string;
}

export interface Point {
  x: number;
  y: number;
  low?: number;
  high?: number;
  /** Nothing is known just before it, so no line leads to it. */
  apart?: boolean;
}

export interface CurvePiece {
  kind: 'curve';
  title: string;
  x: { label: string; log?: boolean };
  y: { label: string; log?: boolean };
  /** `band`: draw the range from low to high as an area instead of whiskers. */
  series: readonly { name: string; points: readonly Point[]; dashed?: boolean; band?: boolean }[];
  /** Marked places on the x axis, with an interval if known. */
  marks?: readonly { x: number; label: string; low?: number; high?: number }[];
  /** A shaded area between two lines, such as the regret of a choice. */
  shade?: { label: string; points: readonly { x: number; from: number; to: number }[] };
  note?: string;
}

export interface TimelinePiece {
  kind: 'timeline';
  title: string;
  /** Milliseconds from the left edge. */
  lanes: readonly {
    name: string;
    bars: readonly {
      label: string;
      startMs: number;
      endMs: number;
      group: string;
      modelled?: boolean;
      detail?: string;
    }[];
  }[];
  endMs: number;
  marks: readonly { atMs: number; label: string }[];
  note?: string;
}

/** A few key figures in large type. */
export interface FiguresPiece {
  kind: 'figures';
  figures: readonly { label: string; value: string; note: string; tone?: Tone }[];
}

export interface FactsPiece {
  kind: 'facts';
  title: string;
  facts: readonly (readonly [name: string, value: string])[];
  folded?: boolean;
}

export interface TextPiece {
  kind: 'text';
  text: string;
  tone?: Tone;
}

/** A shell command to copy. */
export interface CommandPiece {
  kind: 'command';
  text: string;
}

export type Piece =
  | TablePiece
  | DistributionPiece
  | StagesPiece
  | WaterfallPiece
  | CurvePiece
  | TimelinePiece
  | FiguresPiece
  | FactsPiece
  | TextPiece
  | CommandPiece;

export interface Section {
  title: string;
  intro?: string;
  pieces: readonly Piece[];
}

export interface Verdict {
  tone: Tone;
  text: string;
}

/** The parts of a document that depend on the kind of report. */
export interface DocumentParts {
  headline: string;
  subtitle: string;
  /** Why the report is incomplete; null if complete. */
  incomplete: string | null;
  /** Caveats that must be shown with the figures. */
  labels: readonly string[];
  sections: readonly Section[];
  facts: FactsPiece;
}

export interface ReportDocument {
  /** e.g. 'kvferry run'. */
  command: string;
  headline: string;
  subtitle: string;
  verdicts: readonly Verdict[];
  sections: readonly Section[];
  footer: string;
}

export const cellText = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text);

/** At most `most` items, evenly spaced, including both ends. */
export function evenly<T>(all: readonly T[], most: number): readonly T[] {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, i) => all[Math.round((i * (all.length - 1)) / (most - 1))]!);
}
