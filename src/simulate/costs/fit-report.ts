/**
 * Fits costs to what a benchmark saw from outside, of a server or of engines here: TTFT against the tokens to compute,
 * time a token against the requests that decoded at the same time. Steps cannot be seen, so this knows less than
 * measuring does.
 */

import { parseRunConfig } from '../../config/run.ts';
import { tokenContext } from '../../connector/policy/cost-model.ts';
import { ConfigError } from '../../errors.ts';
import { rowsAStep } from '../../fleet/from-config.ts';
import { type FleetOptions, fleetOf } from '../../fleet/seats.ts';
import { plural } from '../../measure/format.ts';
import { type Fit, fitNonNegative } from '../../measure/least-squares.ts';
import type { BenchSample } from '../../measure/schemas/bench-mode-schema.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import { sum, sumOf } from '../../sum.ts';
import type { SimulationCostsFile } from './linear.ts';
import { type Concurrency, computedOf, contextOf, plainSamples } from './report-samples.ts';

export interface FittedReport {
  file: SimulationCostsFile;
  /** Requests whose TTFT was fitted, and requests whose time a token was. */
  requests: { ttft: number; tpot: number };
  /** Medians of |measured - fitted| / measured. */
  medianError: { ttft: number; tpot: number };
  worst: { what: string; error: number };
  /** What could not be determined, a sentence each. */
  notes: string[];
}

/** Ratio of the largest value to the smallest up to which no slope can be fitted. */
const LEAST_SPREAD = 1.25;
const LEAST_REQUESTS = 8;
/** Share of the median time a token; faster answers were held back on their way. */
const LEAST_SHARE = 0.1;

/**
 * `fleet`: the engines that shared the requests; null: those that the report names, or one P and one D of a server.
 * Throws ConfigError for a report that says too little.
 */
export function fitReport(report: BenchReport, source: string, fleet: FleetOptions | null): FittedReport {
  const notes: string[] = [];
  const engines = enginesOf(fleet ?? reportedFleet(report, source, notes));
  const { samples, concurrent, handsOver } = plainSamples(report);
  if (samples.length < LEAST_REQUESTS)
    throw new ConfigError(
      `${source} has ${samples.length} requests that pulled nothing: wanted at least ${LEAST_REQUESTS}; run a longer benchmark`,
    );
  const prefill = fitPrefill(samples, concurrent, source, notes);
  const decode = fitDecode(samples, concurrent, engines.decode, notes);
  const { step } = decode;
  const computing = engines[handsOver ? 'prefill' : 'decode'];
  notes.push(...aboutQueueing(prefill, step.fixed_ms, computing));
  // In a handover two engines take a step, and D computes the last token of the prompt.
  const stepsMs = handsOver ? 2 * step.fixed_ms + step.ms_per_decode : step.fixed_ms;
  const restMs = Math.max(0, prefill.constantMs - stepsMs);
  const aboutRest = handsOver
    ? 'handover time is part of ms_per_prefill_token and reply_ms'
    : 'what TTFT has beyond its step is in submit_ms';
  const { target } = report;
  return {
    file: {
      kvferry_simulation_costs: 1,
      name: `${target.model}, as ${source} saw it`,
      source: 'fitted',
      model: null,
      about: `${samples.length} requests ${target.url === null ? `on ${report.adapter.name}` : `to ${target.url}`}; ${aboutRest}`,
      max_num_batched_tokens: stepsOf(report, notes),
      step: {
        ...step,
        ...prefill.step,
        ms_per_decode_beside_prompts: 0,
        ms_by_decodes: null,
        ms_by_rows: null,
      },
      decode_step: null,
      read: { fixed_ms: 0, ms_per_byte: 0, beside_ms: 0, from_steps_ms: 0, pull_from_steps_ms: null },
      store: null,
      // The TTFT of an engine that serves alone has no reply in it.
      submit_ms: handsOver ? 0 : restMs,
      reply_ms: handsOver ? restMs : 0,
      message_ms: 0,
      piece_ms: null,
      start_ms: null,
      varies: null,
      speeds: null,
    },
    requests: { ttft: prefill.fitted, tpot: decode.fitted },
    medianError: { ttft: prefill.medianError, tpot: decode.medianError },
    worst: prefill.worst,
    notes,
  };
}

function reportedFleet({ target, config }: BenchReport, source: string, notes: string[]): FleetOptions {
  if (target.url === null) {
    const { fleet, prefill, decode } = config;
    return fleetOf(parseRunConfig({ fleet, prefill, decode }, (key) => `config.${key} of ${source}`));
  }
  notes.push('All answers are taken to come from one D: if there are more, give --decode N.');
  return fleetOf(parseRunConfig({}));
}

function enginesOf({ seats }: FleetOptions): Record<EngineRole, number> {
  const count = (role: EngineRole): number => Math.max(1, seats.filter((seat) => seat.role === role).length);
  return { prefill: count('prefill'), decode: count('decode') };
}

/** Most rows in a step: engines here report it, a server does not. */
function stepsOf({ target, config, adapter }: BenchReport, notes: string[]): number | null {
  if (target.url === null) {
    const { maxNumBatchedTokens: reportedRows } = config;
    return typeof reportedRows === 'number' ? reportedRows : rowsAStep(adapter.software);
  }
  notes.push(
    "A server does not report the most rows in a step: simulations use 2048, vLLM's default. To use another number, write it into max_num_batched_tokens or give --max-num-batched-tokens.",
  );
  return null;
}

const differ = (values: readonly number[]): boolean =>
  Math.max(...values) > LEAST_SPREAD * Math.max(1e-9, Math.min(...values));

interface FittedPrefill {
  step: Pick<
    SimulationCostsFile['step'],
    'ms_per_prefill' | 'ms_per_prefill_token' | 'ms_per_prefill_context'
  >;
  constantMs: number;
  /** What a prompt token ahead of a request adds to its TTFT, ms. */
  aheadMs: number;
  /** Mean of what computing a request's prompt takes in the fit, without the constant, ms; and its tokens. */
  mean: { promptMs: number; tokens: number };
  fitted: number;
  medianError: number;
  worst: FittedReport['worst'];
}

function fitPrefill(
  all: readonly BenchSample[],
  concurrent: readonly Concurrency[],
  source: string,
  notes: string[],
): FittedPrefill {
  const reported = all.every(({ computed_tokens }) => computed_tokens !== null);
  // If the server does not report cached tokens, first turns are taken to be computed in full.
  const chosen = all.flatMap((sample, i) =>
    reported || sample.turn === 1 ? [{ sample, concurrent: concurrent[i]! }] : [],
  );
  if (!reported)
    notes.push('The server does not report what its cache held: TTFT is fitted to first turns alone.');
  const computed = chosen.map(({ sample }) => computedOf(sample));
  if (chosen.length < LEAST_REQUESTS || !differ(computed))
    throw new ConfigError(
      `${source} has ${chosen.length} prompts of nearly one length to fit: wanted at least ${LEAST_REQUESTS} of different lengths; run a benchmark with mixed lengths`,
    );
  const rows = chosen.map(({ sample, concurrent: { ahead } }, i) => [
    1,
    computed[i]!,
    tokenContext(sample.input_num_tokens - computed[i]!, computed[i]!),
    ahead,
  ]);
  const values = chosen.map(({ sample }) => Math.max(1e-3, sample.ttft_ms));
  const used = rows.some((row) => row[3]! > 0) ? rows : rows.map((row) => row.slice(0, 3));
  const fit = fitNonNegative(used, values);
  const [constantMs, perToken, perContext, perAhead = 0] = fit.coefficients as [
    number,
    number,
    number,
    number?,
  ];
  const promptMs = sumOf(rows, (row) => perToken * row[1]! + perContext * row[2]!) / rows.length;
  return {
    step: { ms_per_prefill: 0, ms_per_prefill_token: perToken, ms_per_prefill_context: perContext },
    constantMs,
    aheadMs: perAhead,
    mean: { promptMs, tokens: sum(computed) / computed.length },
    fitted: chosen.length,
    medianError: fit.medianError,
    worst: worstOf(fit, used, values, (i) => `a TTFT with ${computed[i]} computed tokens`),
  };
}

/** By how much more than a simulation queues a token may delay the next request, as a factor. */
const MOST_QUEUEING = 1.25;

/** A simulation only queues what its steps take, on each of the `engines` that compute prompts. */
function aboutQueueing({ aheadMs, mean }: FittedPrefill, fixedMs: number, engines: number): string[] {
  if (aheadMs === 0) return [];
  const seen = `Each prompt token ahead of a request adds ${aheadMs.toPrecision(3)} ms to its TTFT here.`;
  const simulatedMs = (fixedMs + mean.promptMs) / mean.tokens / engines;
  if (aheadMs <= MOST_QUEUEING * simulatedMs) return [`${seen} This is queueing, which is simulated anyway.`];
  return [
    `${seen} With these costs a simulation adds only ${simulatedMs.toPrecision(3)} ms: so many requests waited that what one prompt takes could not be told from its queue, and simulated TTFT will be too short. Fit a report of fewer requests at a time, such as with --num-clients 1.`,
  ];
}

function fitDecode(
  all: readonly BenchSample[],
  concurrent: readonly Concurrency[],
  engines: number,
  notes: string[],
): {
  step: Pick<SimulationCostsFile['step'], 'fixed_ms' | 'ms_per_decode' | 'ms_per_decode_context'>;
  fitted: number;
  medianError: number;
} {
  const answers = all.flatMap((sample, i) =>
    sample.tpot_ms > 0 && sample.output_num_tokens > 2 ? [{ sample, concurrent: concurrent[i]! }] : [],
  );
  const times = answers.map(({ sample }) => sample.tpot_ms);
  const least = times.length === 0 ? 0 : LEAST_SHARE * median(times);
  const chosen = answers.filter(({ sample }) => sample.tpot_ms >= least);
  if (chosen.length < answers.length)
    notes.push(
      `${plural(answers.length - chosen.length, 'answer')} came nearly at once, held back on the way: time a token is fitted to the others.`,
    );
  const nothing = { fixed_ms: 0, ms_per_decode: 0, ms_per_decode_context: 0 };
  if (chosen.length < LEAST_REQUESTS) {
    notes.push('Too few answers of several tokens: decode steps take no time.');
    return { step: nothing, fitted: 0, medianError: 0 };
  }
  // One of these engines has its share of the other requests, and the request itself.
  const shared = (total: number, own: number): number => own + (total - own) / engines;
  const decoding = chosen.map(({ concurrent: { decoding: n } }) => shared(n, 1));
  const context = chosen.map(({ sample, concurrent: { context: c } }) => shared(c, contextOf(sample)));
  const byCount = differ(decoding);
  const byContext = differ(context);
  if (!byCount)
    notes.push(
      'About as many requests decoded at all times: what another one adds to a step cannot be determined.',
    );
  const rows = decoding.map((n, i) => [1, ...(byCount ? [n] : []), ...(byContext ? [context[i]!] : [])]);
  const fit = fitNonNegative(
    rows,
    chosen.map(({ sample }) => sample.tpot_ms),
  );
  const [fixed, ...slopes] = fit.coefficients as [number, ...number[]];
  return {
    step: {
      fixed_ms: fixed,
      ms_per_decode: byCount ? slopes.shift()! : 0,
      ms_per_decode_context: byContext ? slopes.shift()! : 0,
    },
    fitted: chosen.length,
    medianError: fit.medianError,
  };
}

function worstOf(
  { coefficients }: Fit,
  rows: readonly (readonly number[])[],
  values: readonly number[],
  name: (i: number) => string,
): FittedReport['worst'] {
  const errors = rows.map(
    (row, i) => row.reduce((sum, value, j) => sum + value * coefficients[j]!, 0) / values[i]! - 1,
  );
  const i = errors.reduce((worst, error, at) => (Math.abs(error) > Math.abs(errors[worst]!) ? at : worst), 0);
  return { what: name(i), error: errors[i]! };
}
