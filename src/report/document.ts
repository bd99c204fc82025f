/**
 * A report as sections of neutral pieces, between what was measured and how it is shown: run.ts and its like make them,
 * html/ and markdown.ts draw them. Texts are plain; whoever draws escapes them.
 */
import type { Outcome } from '../measure/outcome.ts';

export type Tone = 'good' | 'bad' | 'plain';

export const TONE_OF: Readonly<Record<Outcome, Tone>> = { ahead: 'good', behind: 'bad', tie: 'plain' };

export type Cell = string | { text: string; tone?: Tone; strong?: boolean };

export interface Column {
  head: string;
  /** Numbers stand right, the default. */
  align?: 'left' | 'right';
  /** Neighbours of the same group share this heading. */
  group?: string;
}

export const left = (head: string): Column => ({ head, align: 'left' });
export const right = (...heads: string[]): Column[] => heads.map((head) => ({ head }));
export const under = (group: string, ...heads: string[]): Column[] => heads.map((head) => ({ head, group }));

export interface TablePiece {
  kind: 'table';
  title: string;
  /** The section's title says it already. */
  quiet?: boolean;
  columns: readonly Column[];
  rows: readonly (readonly Cell[])[];
  note?: string;
  /** Long: closed until it is asked for. */
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

/** Bars on one scale, cut into the same parts. */
export interface StagesPiece {
  kind: 'stages';
  title: string;
  unit: string;
  parts: readonly { key: string; label: string; group: string }[];
  bars: readonly { name: string; values: Readonly<Record<string, number>>; note?: string }[];
  note?: string;
}

/** From one total to another, by what each step saved or added. */
export interface WaterfallPiece {
  kind: 'waterfall';
  title: string;
  unit: string;
  from: { name: string; value: number };
  to: { name: string; value: number };
  /** Positive: dearer. They add up to the difference of the two. */
  steps: readonly { label: string; change: number }[];
  note?: string;
}

export interface Point {
  x: number;
  y: number;
  low?: number;
  high?: number;
}

export interface CurvePiece {
  kind: 'curve';
  title: string;
  x: { label: string; log?: boolean };
  y: { label: string; log?: boolean };
  /** `band`: what lies between low and high of its points is an area, in place of whiskers. */
  series: readonly { name: string; points: readonly Point[]; dashed?: boolean; band?: boolean }[];
  /** Places on the x axis, with an interval where one is known. */
  marks?: readonly { x: number; label: string; low?: number; high?: number }[];
  /** The area between two lines, such as what a choice costs above the best one. */
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

/** A few large figures side by side. */
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

/** A line to be typed or copied as it stands. */
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

/** What a report of each kind has of its own, in the frame that all share. */
export interface DocumentParts {
  headline: string;
  subtitle: string;
  /** Why it is not whole; null: it is. */
  incomplete: string | null;
  /** What its figures must not be read without. */
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

export const sumOf = (values: Readonly<Record<string, number>>): number =>
  Object.values(values).reduce((sum, value) => sum + value, 0);

export const cellText = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text);

/** So many at most, evenly chosen, the ends among them. */
export function evenly<T>(all: readonly T[], most: number): readonly T[] {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, i) => all[Math.round((i * (all.length - 1)) / (most - 1))]!);
}
