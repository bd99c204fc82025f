/** From what was measured to costs: medians of repeats, then one fit of steps, and one of READs. */
import type { Cluster } from '../../fleet/types.ts';
import { type Fit, fitNonNegative } from '../../measure/least-squares.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import { linearCosts, type SimulationCostsFile } from './linear.ts';
import { type StepShape, shapeOf } from './types.ts';

export interface MeasuredCosts {
  file: SimulationCostsFile;
  points: number;
  /** Of the fit of steps: median and largest error, as a share of what was measured, and where the largest was. */
  medianError: number;
  worst: { what: string; error: number };
}

/** One thing that was measured, so often as there were rounds. */
export interface Point {
  what: string;
  role: EngineRole;
  /** Steps that its time is the sum of. */
  steps: readonly StepShape[];
  /** Whether a request's way to its engine is part of it. */
  submits: 0 | 1;
  ms: number[];
}

export interface HandOver {
  tokens: number;
  ttftMs: number;
  readMs: number;
  bytes: number;
}

/** Of so many engines at once, by engine: what its like pieces of work took; nothing of those that were not at work. */
export type Beside = { role: EngineRole; ms: number[] }[];

export const ROLES: readonly EngineRole[] = ['prefill', 'decode'];

/** What the runner cuts a step into, so that copies get in between. */
const PIECE_MS = 30;

export function fitted(
  { info, settings, engines }: Cluster,
  points: readonly Point[],
  handOvers: readonly HandOver[],
  beside: readonly Beside[],
): MeasuredCosts {
  // Drivers of P and D may differ: one fit with coefficients for each, and one for a request's way.
  const roles = ROLES.filter((role) => points.some((point) => point.role === role));
  const rows = points.map(({ role, steps, submits }) => [
    ...roles.flatMap((each) => featuresOf(each === role ? steps : [])),
    submits,
  ]);
  const values = points.map(({ ms }) => Math.max(1e-3, median(ms)));
  const fit = fitNonNegative(rows, values);
  const stepOf = (role: EngineRole) => {
    const [fixed, token, context, decodes, decodeContext] = fit.coefficients.slice(
      FEATURES * roles.indexOf(role),
    ) as Coefficients;
    return {
      fixed_ms: fixed,
      ms_per_prefill: 0,
      ms_per_prefill_token: token,
      ms_per_prefill_context: context,
      ms_per_decode: decodes,
      ms_per_decode_context: decodeContext,
    };
  };
  const read = fitNonNegative(
    handOvers.map(({ bytes }) => [1, bytes]),
    handOvers.map(({ readMs }) => Math.max(1e-3, readMs)),
  );
  const [readFixed, readPerByte] = read.coefficients as [number, number];
  const file: SimulationCostsFile = {
    kvferry_simulation_costs: 1,
    name: `${info.model.name} on ${info.adapter.name}`,
    source: 'measured',
    model: settings.model,
    about: `${points.length + handOvers.length} points, ${engines.length} engines of ${info.model.name}, at most ${settings.maxNumBatchedTokens} rows a step`,
    step: stepOf(roles[0]!),
    decode_step: roles.length > 1 ? stepOf('decode') : null,
    read: { fixed_ms: readFixed, ms_per_byte: readPerByte },
    store: null,
    submit_ms: fit.coefficients.at(-1)!,
    reply_ms: 0,
    message_ms: 0,
    piece_ms: PIECE_MS,
    start_ms: info.startMs,
    speeds: speedsOf(roles[0]!, beside),
    decode_speeds: roles.length > 1 ? speedsOf('decode', beside) : null,
  };
  file.reply_ms = replyMs(file, handOvers, settings.maxNumBatchedTokens);
  return {
    file,
    points: points.length + handOvers.length,
    medianError: fit.medianError,
    worst: worstOf(points, fit, rows),
  };
}

type Coefficients = [number, number, number, number, number];
const FEATURES = 5;

const featuresOf = (steps: readonly StepShape[]): number[] => {
  const sum = (value: (shape: StepShape) => number) =>
    steps.reduce((total, shape) => total + value(shape), 0);
  return [
    steps.length,
    sum(({ prefillTokens }) => prefillTokens),
    sum(({ prefillContext }) => prefillContext),
    sum(({ decodes }) => decodes),
    sum(({ decodeContext }) => decodeContext),
  ];
};

function worstOf(
  points: readonly Point[],
  { coefficients }: Fit,
  rows: readonly number[][],
): MeasuredCosts['worst'] {
  const errors = points.map(({ what, ms }, i) => {
    const predicted = rows[i]!.reduce((sum, value, j) => sum + value * coefficients[j]!, 0);
    return { what, error: predicted / median(ms) - 1 };
  });
  return errors.reduce((worst, each) => (Math.abs(each.error) > Math.abs(worst.error) ? each : worst));
}

/** What is left of a hand-over's TTFT without both engines' steps, both requests' ways and the READ: P's answer's way to the router. */
function replyMs(
  file: SimulationCostsFile,
  handOvers: readonly HandOver[],
  maxNumBatchedTokens: number,
): number {
  const costs = linearCosts(file);
  const place = { poolTokens: 1, maxNumSeqs: 1 };
  const stepMs = (role: EngineRole, shape: StepShape) => costs.stepMs(shape, { ...place, role });
  const left = handOvers.map(({ tokens, ttftMs, readMs }) => {
    const prefillMs = prefillSteps(tokens, maxNumBatchedTokens).reduce(
      (sum, shape) => sum + stepMs('prefill', shape),
      0,
    );
    const firstMs = stepMs('decode', decodeShape(1, tokens - 1));
    return ttftMs - prefillMs - firstMs - 2 * costs.submitMs - readMs;
  });
  return Math.max(0, median(left));
}

/** Of a role's engines beside so many others, against each of them alone; the mean of those that were at work. */
function speedsOf(role: EngineRole, beside: readonly Beside[]): number[] {
  const [alone] = beside;
  let least = 1;
  return beside.map((engines) => {
    const shares = engines.flatMap(({ role: of, ms }, i) =>
      of === role && ms.length > 0 ? median(alone![i]!.ms) / median(ms) : [],
    );
    if (shares.length > 0)
      least = Math.min(least, shares.reduce((sum, share) => sum + share, 0) / shares.length);
    return least;
  });
}

/** A prompt that nothing is known of, as the scheduler cuts it. */
export function prefillSteps(tokens: number, maxNumBatchedTokens: number): StepShape[] {
  const steps: StepShape[] = [];
  for (let start = 0; start < tokens; start += maxNumBatchedTokens) {
    const length = Math.min(maxNumBatchedTokens, tokens - start);
    const request = { startPosition: start, tokenIds: Array.from({ length }, () => 0) };
    steps.push(shapeOf({ step: 0, requests: [{ ...request, requestId: '', blockIds: [], sample: null }] }));
  }
  return steps;
}

export const decodeShape = (count: number, context: number): StepShape => {
  return { decodes: count, decodeContext: count * context, prefills: 0, prefillTokens: 0, prefillContext: 0 };
};
