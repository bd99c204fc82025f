/** How long things take in a simulation. Only these times are a model; what is done when, and by whom, is the real policy. */
import { tokenContext } from '../../connector/policy/cost-model.ts';
import type { ScheduledBatch } from '../../engine/types.ts';
import type { EngineRole } from '../../router/engine-client.ts';

/** What a step is at, whoever takes it: prompts, whatever else it computes, or answers alone. */
export type Work = 'prefill' | 'decode';

/**
 * Of an engine at that work while so many are at each, itself among them, as a share of one alone. `context`: tokens before each
 * row of its step, on average.
 */
export type SpeedOf = (work: Work, atWork: Readonly<Record<Work, number>>, context: number) => number;

/** Of a step's batch, what its time hangs on. */
export interface StepShape {
  /** Requests with one row: they decode, or compute the last token of what they pulled. */
  decodes: number;
  /** Tokens before their rows, over all of them. */
  decodeContext: number;
  /** Requests with several rows, and those rows. */
  prefills: number;
  prefillTokens: number;
  /** Tokens before each of those rows, over all of them. */
  prefillContext: number;
}

/**
 * How many times its time a step takes: stretches of steps as they followed each other, since one that is slow is rarely alone.
 * Each stretch is as likely as the others.
 */
export type Varies = (shape: StepShape) => readonly Stretch[];
export type Stretch = readonly number[];

/** The engine that steps. */
export interface StepPlace {
  role: EngineRole;
  /** Tokens that its pool holds. */
  poolTokens: number;
  maxNumSeqs: number;
}

/**
 * measured: on this machine, in this program. fitted: to runs of something else. published: by others, for their
 * engines. assumed: by whoever wrote it.
 */
export const SOURCES = ['measured', 'fitted', 'published', 'assumed'] as const;
export type CostSource = (typeof SOURCES)[number];

/** Of one block, or of several that are asked for at once. */
export interface ByBytes {
  fixedMs: number;
  msPerByte: number;
}

/** What may lie below a store's memory. */
export type Medium = 'folder' | 'server';

export interface SimulationCosts {
  name: string;
  source: CostSource;
  /** The model that the times are of; null: of none by name. */
  model: string | null;
  /** For people: whose times, of what. */
  about: string;
  /** Rows that a step of theirs computes at most; null: they say nothing of it. */
  maxNumBatchedTokens: number | null;
  /** From a step's plan to its outputs, milliseconds, on an engine that has its machine to itself. */
  stepMs(shape: StepShape, place: StepPlace): number;
  /** A READ, beside what a modelled link takes, milliseconds. `promptTokens`: of the reader's whole prompt. */
  readMs(bytes: number, promptTokens: number): number;
  /** What it takes more while engines compute on the machine that all share, milliseconds. */
  readBesideMs: number;
  /** What it takes from each step on that machine, milliseconds; and one by which P pulls what D has. */
  readFromStepsMs: number;
  pullFromStepsMs: number;
  /**
   * Between an engine and a store, milliseconds: a load; and a save, from its offer on. null: they say nothing of a store, and
   * both take what a READ between engines takes.
   */
  store:
    | ({ loadMs(bytes: number): number; saveMs(bytes: number): number } & {
        /** Below its memory; absent or null: they say nothing of it. `write` null: nothing of that. */
        [M in Medium]?: { read: ByBytes; write: ByBytes | null } | null;
      })
    | null;
  /** From the router to an engine, milliseconds. */
  submitMs: number;
  /** From an engine's step to the router; a token's own time is its step's end. */
  replyMs: number;
  /** Between engines, outside of READs. */
  messageMs: number;
  /**
   * Work that a device takes at once: a copy waits for the piece in flight, at the holder and at the reader. null: copies
   * wait for nothing.
   */
  pieceMs: number | null;
  /** Until a new engine serves; null: they say nothing of it. */
  startMs: number | null;
  /** null: a step always takes its time. */
  varies: Varies | null;
  /** How fast an engine computes on a machine that all share; null: each has its own. */
  speeds: SpeedOf | null;
}

/** Whoever does not say how many rows a step computes at most gets steps like those whose times are known. */
export const inStepsOf = <C extends { maxNumBatchedTokens: number | null }>(
  { maxNumBatchedTokens }: Pick<SimulationCosts, 'maxNumBatchedTokens'>,
  config: C,
): C => ({ ...config, maxNumBatchedTokens: config.maxNumBatchedTokens ?? maxNumBatchedTokens });

export const workOf = ({ prefills }: StepShape): Work => (prefills > 0 ? 'prefill' : 'decode');

/** Tokens before each of its rows, on average. */
export const contextOf = ({ decodes, decodeContext, prefillTokens, prefillContext }: StepShape): number =>
  (decodeContext + prefillContext) / Math.max(1, decodes + prefillTokens);

export function shapeOf({ requests }: ScheduledBatch): StepShape {
  const shape = { decodes: 0, decodeContext: 0, prefills: 0, prefillTokens: 0, prefillContext: 0 };
  for (const { tokenIds, startPosition } of requests) {
    if (tokenIds.length === 1) {
      shape.decodes++;
      shape.decodeContext += startPosition;
    } else {
      shape.prefills++;
      shape.prefillTokens += tokenIds.length;
      shape.prefillContext += tokenContext(startPosition, tokenIds.length);
    }
  }
  return shape;
}
