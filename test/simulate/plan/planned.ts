/** Plans for tests: engines with times that are easy to add up, and loads from a trace with even gaps or from draws. */

import { promisesRun } from '../../../src/cli/simulate/promises-run.ts';
import { linearCosts, simulationCostsSchema } from '../../../src/simulate/costs/linear.ts';
import type { Candidate } from '../../../src/simulate/plan/candidate.ts';
import { samplesOf } from '../../../src/simulate/plan/halving.ts';
import {
  conversationLoad,
  type Draws,
  type PlannedLoad,
  traceLoad,
} from '../../../src/simulate/plan/load.ts';
import type { Outcome, Slo, Trial } from '../../../src/simulate/plan/outcome.ts';
import type { Search, Space } from '../../../src/simulate/plan/space.ts';
import { simulateTrial, Trials, type TrialWorld } from '../../../src/simulate/plan/trial.ts';
import { Random } from '../../../src/workload/random.ts';
import { TraceTokens } from '../../../src/workload/traces/tokens.ts';
import type { TraceTurn } from '../../../src/workload/traces/types.ts';
import { fleetOptions } from '../simulated.ts';

/** Milliseconds that P takes for a prompt. */
export const SERVICE_MS = 100;
const TOKENS = 100;

/** A prompt takes P 100 ms, whatever else runs; a step takes D 0.1 ms per request. */
const costs = linearCosts(
  simulationCostsSchema.parse({
    kvferry_simulation_costs: 1,
    name: 'test',
    source: 'assumed',
    step: { ms_per_prefill_token: SERVICE_MS / TOKENS, ms_per_decode: 0.1 },
  }),
);

/** Conversations of one turn, all different, at even gaps: `perSecond` unless rescaled. */
export const evenTrace = (requests: number, perSecond: number, outputTokens = 4): PlannedLoad =>
  traceAt(
    Array.from({ length: requests }, (_, i) => (1000 * (i + 1)) / perSecond),
    outputTokens,
  );

/** The same at these times, with prompts of `tokensOf` tokens. */
export function traceAt(
  timesMs: readonly number[],
  outputTokens = 4,
  tokensOf: (index: number) => number = () => TOKENS,
): PlannedLoad {
  const turns = timesMs.map((ms, index) => ({
    ...{ index, line: index + 1, conversationId: `c${index}`, turn: 1 },
    arrival: { kind: 'at', ms } as const,
    ...{ inputTokens: tokensOf(index), outputTokens },
    prompt: [{ key: index, from: 0, length: tokensOf(index) }],
    answer: [{ key: 1_000_000 + index, from: 0, length: outputTokens }],
  }));
  return traceLoad(turns, new TraceTokens(500, 1));
}

/** Users who come one a second and then send a request every `gapMs`, all different, if no answer takes any time. */
export function regularUsers(users: number, turnsEach: number, gapMs: number): PlannedLoad {
  const turns = Array.from({ length: users * turnsEach }, (_, index): TraceTurn => {
    const user = index % users;
    return {
      ...{ index, line: index + 1, conversationId: `u${user}`, turn: 1 + Math.floor(index / users) },
      arrival:
        index < users
          ? { kind: 'at', ms: 1000 * user }
          : { kind: 'after', index: index - users, thinkMs: gapMs },
      ...{ inputTokens: TOKENS, outputTokens: 4 },
      prompt: [{ key: index, from: 0, length: TOKENS }],
      answer: [{ key: 1_000_000 + index, from: 0, length: 4 }],
    };
  });
  return traceLoad(turns, new TraceTokens(500, 1));
}

/** Conversations with drawn arrivals; each turn adds TOKENS tokens to the conversation so far. */
export function drawnLoad(requests: number, { turns = 1, thinkMs = 0, outputTokens = 4 } = {}): PlannedLoad {
  const random = new Random(7);
  const turn = () => ({
    content: {
      kind: 'tokens' as const,
      tokenIds: Array.from({ length: TOKENS }, () => random.int(8, 400)),
    },
    inputTokens: TOKENS,
    outputTokens,
  });
  return conversationLoad(
    Array.from({ length: requests / turns }, (_, i) => ({
      id: `c${i}`,
      turns: Array.from({ length: turns }, turn),
    })),
    thinkMs,
  );
}

/** For a load that draws nothing, as a trace's. */
export const NOTHING_DRAWN: Draws = { seed: 0, seeds: 1, countsFrom: 0 };

export const roundRobin = { name: 'round-robin', parameters: {} };

export function searchOf(
  load: PlannedLoad,
  slo: Slo,
  space: Partial<Space> = {},
  sample = load.requests,
  seed = 1,
): Search {
  const world: TrialWorld = {
    load,
    slo,
    longest: sample,
    base: fleetOptions({ blocks: 600, options: { maxNumSeqs: 64 } }),
    simulation: {
      ...{ costs, groups: [{ kind: 'full' }], blockBytes: 16_000, sharing: 'fcfs' },
      ...{ check: false, runs: true, tokenIds: [8, 500], seed, seeds: 1 },
      slo: { ttftMs: slo.ttftMs, tpotMs: slo.tpotMs },
      nextTask: promisesRun,
      signal: new AbortController().signal,
      onProgress() {},
    },
  };
  const simulate = (trial: Trial) => simulateTrial(trial, world);
  return {
    trials: new Trials({ slo, simulate, atOnce: 1, onTrial() {} }),
    space: {
      ...{ routings: [roundRobin], modes: ['bidirectional'], thresholds: [64], placements: ['pooled'] },
      stores: [null],
      maxEngines: 16,
      ...space,
    },
    samples: samplesOf(sample),
    mostRequests: load.requests,
    onRound() {},
  };
}

/** Trials in which it is known what each candidate sustains, requests a second. `unsure`: half of an interval. */
export function knowing(bears: (candidate: Candidate, sample: number) => number, unsure = 0): Trials {
  const run = async (trial: Trial): Promise<Outcome> => {
    const sustained = bears(trial.candidate, trial.sample);
    const share = Math.min(1, 0.95 * (sustained / trial.perSecond));
    const good = Math.round(100 * share);
    return {
      ...trial,
      ...{ withWarmUp: trial.sample, share, counted: 1000, due: 1000 },
      interval: { low: share - unsure, high: share + unsure },
      batches: Array.from({ length: 10 }, () => ({ counted: 100, good })),
      missed: { ttft: 1000 - 10 * good, tpot: 0, failed: 0 },
      ...{
        ttftMs: null,
        tpotMs: null,
        waitGrowth: 0,
        stayMs: 0,
        goodPerSecond: 0,
        countedMs: 1,
        verdict: 'STABLE',
      },
      busy: { prefill: 0, decode: 0 },
      met: trial.perSecond <= sustained,
    };
  };
  const runAll = (trials: readonly Trial[]) => Promise.all(trials.map(run));
  return { slo: { ttftMs: 250, tpotMs: null, attainment: 0.9 }, run, runAll } as Partial<Trials> as Trials;
}
