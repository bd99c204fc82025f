/** Fits costs to measurements: what repeats took, then steps with prompts, decode steps, and READs. */

import { mean } from 'simple-statistics';
import { tokenContext } from '../../connector/policy/cost-model.ts';
import { linkOfPairs } from '../../fleet/options.ts';
import type { Cluster } from '../../fleet/types.ts';
import { fitNonNegative, neverLess } from '../../measure/least-squares.ts';
import { median, quantile } from '../../measure/statistics.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import { sumOf } from '../../sum.ts';
import type { ConcurrentWork } from './contention.ts';
import { speedsOf } from './fit-speeds.ts';
import { between, type SimulationCostsFile, stepMs } from './linear.ts';
import { type OverlappingRead, readContention, type StepGroup } from './overlapping-reads.ts';
import type { StepShape } from './types.ts';

export interface MeasuredCosts {
  file: SimulationCostsFile;
  /** The modelled link that READs were measured over, by name; null: none. */
  link: string | null;
  points: number;
  /**
   * Width of the middle half of a point's repeats, as a share of the point's time: the median over all points, and the
   * widest.
   */
  spread: { median: number; worst: { what: string; spread: number } };
  /** Largest error of a step's fit, as a share of the measured time, and of which step. */
  worst: { what: string; error: number };
}

/** One thing that was measured, with a time for each repeat. */
export interface Point {
  what: string;
  role: EngineRole;
  /** Steps whose times add up to its time. */
  steps: readonly StepShape[];
  ms: number[];
  /** Times of single steps, ms; those that followed each other form one list. */
  stretchesMs: (readonly number[])[];
}

export interface MeasuredHandover {
  /** The router's own work, and messages on their way to an engine and back. */
  routerMs: number;
  readMs: number;
  /** What D does before and after the READ, without its steps. */
  aroundMs: number;
  bytes: number;
}

export const ROLES: readonly EngineRole[] = ['prefill', 'decode'];

/** Length of the pieces that the runner cuts a step into, so that copies get in between, ms. */
const PIECE_MS = 30;

interface Measurements {
  /** Times of requests from the router to their engines. */
  submitMs: readonly number[];
  handovers: readonly MeasuredHandover[];
  concurrent: readonly ConcurrentWork[];
  overlappingReads: {
    reads: readonly OverlappingRead[];
    steps: readonly StepGroup[];
    decodes: readonly unknown[];
  };
}

export function fitted(
  { info, settings, engines }: Cluster,
  points: readonly Point[],
  { submitMs, handovers, concurrent, overlappingReads }: Measurements,
): MeasuredCosts {
  // Drivers of P and D may differ.
  const roles = ROLES.filter((role) => points.some((point) => point.role === role));
  const stepOf = (role: EngineRole) => stepFit(points.filter((point) => point.role === role));
  const read = fitNonNegative(
    handovers.map(({ bytes }) => [1, bytes]),
    handovers.map(({ readMs }) => Math.max(1e-3, readMs)),
  );
  const [fixedMs, msPerByte] = read.coefficients as [number, number];
  const toEngineMs = median(submitMs);
  // A turn sends a request to P and one to D, and P's answer comes back. What is left is the router's own work before
  // each of the two.
  const routerMs = median(handovers.map(({ routerMs }) => routerMs));
  const ownMs = Math.max(0, routerMs - 3 * toEngineMs) / 2;
  const step = stepOf(roles[0]!);
  const decodeStep = roles.length > 1 ? stepOf('decode') : null;
  const [oneMs = 0, twoMs = oneMs] = (decodeStep ?? step).ms_by_decodes ?? [];
  const aroundMs = median(handovers.map((handover) => handover.aroundMs));
  const contention = readContention((bytes) => fixedMs + msPerByte * bytes, overlappingReads, {
    ...{ rowMs: twoMs - oneMs, decodes: overlappingReads.decodes.length },
  });
  const link = linkOfPairs(settings)?.name ?? null;
  const file: SimulationCostsFile = {
    kvferry_simulation_costs: 1,
    name: `${info.model.name} on ${info.adapter.name}`,
    source: 'measured',
    model: settings.model,
    about: `${points.length + handovers.length} points, ${engines.length} engines of ${info.model.name}, at most ${settings.maxNumBatchedTokens} rows a step${link === null ? '' : `; READs over ${link}, a modelled link`}`,
    max_num_batched_tokens: settings.maxNumBatchedTokens,
    step,
    decode_step: decodeStep,
    read: {
      fixed_ms: fixedMs + aroundMs,
      ms_per_byte: msPerByte,
      beside_ms: contention.readMs,
      from_steps_ms: contention.fromStepsMs,
      pull_from_steps_ms: contention.pullFromStepsMs,
    },
    store: null,
    submit_ms: toEngineMs + ownMs,
    reply_ms: toEngineMs,
    message_ms: 0,
    piece_ms: PIECE_MS,
    start_ms: info.startMs,
    varies: {
      prompts: variesOf(points.filter((point) => hasPrompts(point) && !isLong(point))),
      long_prompts: points.some(isLong) ? { rows: LONG_ROWS, times: variesOf(points.filter(isLong)) } : null,
      decodes: variesOf(points.filter((point) => !hasPrompts(point))),
      reads: readsVary(handovers, (bytes) => fixedMs + aroundMs + msPerByte * bytes),
    },
    speeds: speedsOf(concurrent),
  };
  const errors = errorsOf(file, points);
  return {
    file,
    link,
    points: points.length + handovers.length,
    spread: spreadOf(points),
    worst: errors.reduce((worst, point) => (Math.abs(point.error) > Math.abs(worst.error) ? point : worst)),
  };
}

/** Whether it has steps with prompts in which requests also decode. */
const isMixed = ({ steps }: Point): boolean =>
  steps.some(({ decodes, prefills }) => decodes > 0 && prefills > 0);

const hasPrompts = ({ steps }: Point): boolean => steps.some(({ prefills }) => prefills > 0);

/** Steps with more rows count as long: pauses of a thread are a smaller share of their time. */
const LONG_ROWS = 64;
const isLong = ({ steps }: Point): boolean => steps.some(({ prefillTokens }) => prefillTokens > LONG_ROWS);

/** Number of stretches that stand for all of them, and of READs. */
const STAND_FOR_ALL = 40;

/**
 * Times of steps as shares of their point's time: stretches evenly spread over all of them, from the fastest to the
 * slowest.
 */
function variesOf(points: readonly Point[]): number[][] {
  const stretches = points.flatMap((point) =>
    point.stretchesMs.map((stretch) => stretch.map((ms) => Math.max(1e-3, ms) / msOf(point))),
  );
  if (stretches.length === 0) return [[1]];
  return evenly(stretches.toSorted((a, b) => mean(a) - mean(b)));
}

/** Times of READs as shares of their modelled time, from the fastest to the slowest. */
function readsVary(handovers: readonly MeasuredHandover[], modelledMs: (bytes: number) => number): number[] {
  const shares = handovers.map(({ readMs, aroundMs, bytes }) => {
    return Math.max(1e-3, readMs + aroundMs) / Math.max(1e-3, modelledMs(bytes));
  });
  return evenly(shares.toSorted((a, b) => a - b));
}

/** Items evenly spread over a sorted list, STAND_FOR_ALL in number. */
const evenly = <T>(sorted: readonly T[]): T[] =>
  Array.from(
    { length: STAND_FOR_ALL },
    (_, i) => sorted[Math.floor(((i + 0.5) / STAND_FOR_ALL) * sorted.length)]!,
  );

function spreadOf(points: readonly Point[]): MeasuredCosts['spread'] {
  const spreads = points.map((point) => {
    const spread = (quantile(point.ms, 0.75) - quantile(point.ms, 0.25)) / msOf(point);
    return { what: point.what, spread };
  });
  return {
    median: median(spreads.map(({ spread }) => spread)),
    worst: spreads.reduce((worst, point) => (point.spread > worst.spread ? point : worst)),
  };
}

/**
 * A point's time, ms. For prompts it is the median, which one long pause does not move. For decode steps it is the
 * mean: those of two rows and more take 9 ms now and 14 ms later where engines share two cores, and a median is one or
 * the other.
 */
const msOf = (point: Point): number => Math.max(1e-3, (hasPrompts(point) ? median : mean)(point.ms));

/**
 * Fit for one role: steps with prompts by their rows, and linear as far as that goes; decode steps by their number of
 * requests.
 */
function stepFit(points: readonly Point[]): SimulationCostsFile['step'] {
  const prompts = points.filter((point) => hasPrompts(point) && !isMixed(point));
  const line = fitNonNegative(
    prompts.map(({ steps }) => [
      steps.length,
      sumOf(steps, ({ prefillTokens }) => prefillTokens),
      sumOf(steps, ({ prefillContext }) => prefillContext),
    ]),
    prompts.map(msOf),
  );
  const [fixed, token, lineContext] = line.coefficients as [number, number, number];
  const { byRows, context } = stepsByRows(prompts, token, lineContext);
  const { decodesMs, contextMs } = decodeSteps(points.filter((point) => !hasPrompts(point)));
  const step = {
    fixed_ms: fixed,
    ms_per_prefill: 0,
    ms_per_prefill_token: token,
    ms_per_prefill_context: context,
    ms_per_decode: Math.max(0, (decodesMs.at(-1)! - decodesMs[0]!) / Math.max(1, decodesMs.length - 1)),
    ms_per_decode_context: contextMs,
    ms_per_decode_beside_prompts: 0,
    ms_by_decodes: decodesMs,
    ms_by_rows: byRows,
  };
  return { ...step, ms_per_decode_beside_prompts: decodeMsWithPrompts(step, points.filter(isMixed)) };
}

/** What each decoding request adds to a step with prompts, beyond its row, ms. */
function decodeMsWithPrompts(step: SimulationCostsFile['step'], mixed: readonly Point[]): number {
  const more = mixed.map((point) => {
    const shape = point.steps[0]!;
    return { x: shape.decodes, y: msOf(point) - stepMs(step, shape) };
  });
  return slopeOf(more) ?? 0;
}

/** Slope of a least-squares line through the origin, at least 0; null: no point determines it. */
function slopeOf(points: readonly { x: number; y: number; weight?: number }[]): number | null {
  const xx = sumOf(points, ({ x, weight = 1 }) => weight * x * x);
  return xx > 0 ? Math.max(0, sumOf(points, ({ x, y, weight = 1 }) => weight * x * y) / xx) : null;
}

type ByRows = NonNullable<SimulationCostsFile['step']['ms_by_rows']>;

/**
 * Times by number of rows, from prompts of one step each: kernels take rows in tiles, and a line does not fit the
 * stairs. The cost of context is the extra time of rows after a cached prefix. Without such points it comes from
 * prompts of several steps, whose later steps read the earlier ones; without these, from the line.
 */
function stepsByRows(
  prompts: readonly Point[],
  slope: number,
  lineContext: number,
): { byRows: ByRows | null; context: number } {
  const single: ByRows = prompts
    .filter((point) => point.steps.length === 1 && !afterPrefix(point))
    .map((point) => [point.steps[0]!.prefillTokens, msOf(point)]);
  single.sort(([a], [b]) => a - b);
  if (single.length === 0) return { byRows: null, context: lineContext };
  const own = (rows: number): number => tokenContext(0, rows);
  const found = prompts.filter(afterPrefix);
  const reading = found.length > 0 ? found : prompts.filter(({ steps }) => steps.length > 1);
  const read = reading.map((point) => ({
    x: sumOf(point.steps, ({ prefillTokens, prefillContext }) => prefillContext - own(prefillTokens)),
    y: msOf(point) - sumOf(point.steps, ({ prefillTokens }) => between(single, prefillTokens, slope)),
  }));
  const context = slopeOf(read) ?? lineContext;
  return { byRows: single.map(([rows, ms]) => [rows, Math.max(0, ms - context * own(rows))]), context };
}

/**
 * Decode steps: their times by number of requests, from 1 on without a gap, and what a token before a row adds,
 * whatever their number. Least squares, points weighted by their repeats.
 */
function decodeSteps(points: readonly Point[]): { decodesMs: number[]; contextMs: number } {
  const alike = [];
  for (let number = 1; ; number++) {
    const same = points
      .filter(({ steps }) => steps[0]!.decodes === number)
      .map((point) => {
        return { repeats: point.ms.length, context: point.steps[0]!.decodeContext, ms: msOf(point) };
      });
    if (same.length === 0) break;
    const repeats = sumOf(same, (point) => point.repeats);
    const context = sumOf(same, (point) => point.repeats * point.context) / repeats;
    alike.push({ same, context, ms: sumOf(same, (point) => point.repeats * point.ms) / repeats });
  }
  const around = alike.flatMap(({ same, context, ms }) =>
    same.map((point) => ({ x: point.context - context, y: point.ms - ms, weight: point.repeats })),
  );
  const contextMs = slopeOf(around) ?? 0;
  // One more row never takes less time: a decrease is noise.
  const decodesMs = neverLess(alike.map(({ context, ms }) => Math.max(0, ms - contextMs * context)));
  return { decodesMs, contextMs };
}

function errorsOf(
  { step, decode_step }: SimulationCostsFile,
  points: readonly Point[],
): MeasuredCosts['worst'][] {
  return points.map((point) => {
    const costs = (point.role === 'decode' && decode_step) || step;
    const predicted = sumOf(point.steps, (shape) => stepMs(costs, shape));
    return { what: point.what, error: predicted / msOf(point) - 1 };
  });
}

/** Whether the rows of its first step follow a cached prefix. */
const afterPrefix = ({ steps }: Point): boolean => {
  const { prefillTokens, prefillContext } = steps[0]!;
  return prefillContext > tokenContext(0, prefillTokens);
};
