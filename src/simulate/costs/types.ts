/**
 * The cost model of a simulation: how long things take. Only these times are modelled; what is done, when and by which
 * engine, is decided by the real policies.
 */
import { tokenContext } from '../../connector/policy/cost-model.ts';
import type { ScheduledBatch } from '../../engine/types.ts';
import type { EngineRole } from '../../router/engine-client.ts';

/**
 * The work of a step, whatever the engine's role: 'prefill' if it computes prompts, whatever else it computes; 'decode'
 * if it only decodes.
 */
export type Work = 'prefill' | 'decode';

/**
 * Speed of an engine at `work` while `atWork` engines compute, itself among them, as a share of its speed alone.
 * `context`: tokens before each row of its step, on average.
 */
export type SpeedOf = (work: Work, atWork: Readonly<Record<Work, number>>, context: number) => number;

/** What the time of a step depends on. */
export interface StepShape {
  /** Requests with one row: they decode, or compute the last token of what they pulled. */
  decodes: number;
  /** Tokens before their rows, in total. */
  decodeContext: number;
  /** Requests with several rows, and those rows. */
  prefills: number;
  prefillTokens: number;
  /** Tokens before each of those rows, in total. */
  prefillContext: number;
}

/**
 * Factors on a step's time, in stretches of consecutive steps, since a slow step is rarely alone. Each stretch is
 * equally likely.
 */
export type Varies = (shape: StepShape) => readonly Stretch[];
export type Stretch = readonly number[];

/** The engine that steps. */
export interface StepPlace {
  role: EngineRole;
  /** Share of its pool that the step's decoding requests use. */
  poolUsed: number;
  maxNumSeqs: number;
}

/**
 * measured: on this machine, by this program. fitted: to runs of something else. published: by others, for their
 * engines. assumed: by the author of the costs.
 */
export const SOURCES = ['measured', 'fitted', 'published', 'assumed'] as const;
export type CostSource = (typeof SOURCES)[number];

/** Time of one block, or of several that are requested at once. */
export interface ByBytes {
  fixedMs: number;
  msPerByte: number;
}

/** A tier below a store's memory. */
export type Medium = 'folder' | 'server';

export interface SimulationCosts {
  name: string;
  source: CostSource;
  /** The model that the times belong to; null: no particular one. */
  model: string | null;
  /** For people: what was timed, and by whom. */
  about: string;
  /** Most rows in a step of the engines that the times come from; null: unknown. */
  maxNumBatchedTokens: number | null;
  /** From a step's plan to its outputs, milliseconds, on an engine that has its machine to itself. */
  stepMs(shape: StepShape, place: StepPlace): number;
  /** A READ, apart from what a modelled link takes, milliseconds. `promptTokens`: of the reader's whole prompt. */
  readMs(bytes: number, promptTokens: number): number;
  /** Added to a READ while engines compute on a machine that all share, milliseconds. */
  readContentionMs: number;
  /** What a READ takes from each step on that machine, milliseconds; the second: where P pulls what D has. */
  readFromStepsMs: number;
  pullFromStepsMs: number;
  /**
   * Between an engine and a store, milliseconds: a load; and a save, from its offer on. null: unknown, and both take
   * what a READ between engines takes.
   */
  store:
    | ({ loadMs(bytes: number): number; saveMs(bytes: number): number } & {
        /** Tiers below its memory; absent or null: unknown. `write` null: unknown. */
        [M in Medium]?: { read: ByBytes; write: ByBytes | null } | null;
      })
    | null;
  /** From the router to an engine, milliseconds. */
  submitMs: number;
  /** From an engine's step to the router, milliseconds; a token's own time is its step's end. */
  replyMs: number;
  /** Messages between engines, outside of READs, milliseconds. */
  messageMs: number;
  /**
   * Work that a device takes at once, milliseconds: a copy waits for the piece in flight, at the holder and at the
   * reader. null: copies wait for nothing.
   */
  pieceMs: number | null;
  /** Start-up time of a new engine, milliseconds; null: unknown. */
  startMs: number | null;
  /** null: steps do not vary. */
  varies: Varies | null;
  /** Factors on the time of a READ between engines, each equally likely; null: they do not vary. */
  readVaries: readonly number[] | null;
  /** How fast an engine computes on a machine that all share; null: each has its own. */
  speeds: SpeedOf | null;
}

/** Unless the config limits the rows of a step, takes the limit of the engines that the times come from. */
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
