/** Published cost models, with their defaults. What they do not cover takes no time. */
import type { SimulationCosts } from './types.ts';

/** Nothing takes any time: only decisions are left. */
export const noCosts: SimulationCosts = {
  name: 'zero',
  source: 'assumed',
  model: null,
  about: 'nothing takes time: decisions alone',
  maxNumBatchedTokens: null,
  stepMs: () => 0,
  readMs: () => 0,
  readContentionMs: 0,
  readFromStepsMs: 0,
  pullFromStepsMs: 0,
  store: null,
  submitMs: 0,
  replyMs: 0,
  messageMs: 0,
  pieceMs: null,
  startMs: 0,
  varies: null,
  readVaries: null,
  speeds: null,
};

/** BLIS's time to load a model, ms: used where the costs give no start-up time. */
export const ASSUMED_START_MS = 240_000;

/** 64 GB/s (10^9 bytes). */
const MOCKER_BYTES_PER_MS = 64e6;

/**
 * The polynomials of Dynamo's mocker (PerfModel::Polynomial): prefill by new tokens, decode by the share of the pool in
 * use, with its floor of 1 ms and its line rate. A step with both takes the sum.
 */
const dynamoMocker: SimulationCosts = {
  ...noCosts,
  startMs: null,
  name: 'dynamo-mocker',
  source: 'published',
  about: "Dynamo mocker's default polynomials and 64 GB/s between workers",
  // The mocker's default. A step has a fixed time, so a prompt takes longer in more steps.
  maxNumBatchedTokens: 8192,
  stepMs({ prefillTokens: n, decodes }, { poolUsed }) {
    const prefillMs = n > 0 ? Math.max(0, 4.209989e-7 * n * n + 1.518344e-2 * n + 16.50142) : 0;
    if (decodes === 0) return prefillMs;
    const used = Math.min(1, poolUsed);
    return prefillMs + Math.max(1, -25.74 * used * used + 54.01 * used + 5.74);
  },
  readMs: (bytes) => bytes / MOCKER_BYTES_PER_MS,
};

/**
 * llm-d's inference simulator, with the example values of its documentation: prefill by tokens that are not cached,
 * handover by the whole prompt whatever D has, and a constant time for a decode step.
 */
const llmDInferenceSim: SimulationCosts = {
  ...noCosts,
  startMs: null,
  name: 'llm-d-inference-sim',
  source: 'published',
  about:
    "llm-d-inference-sim's formulas: 10 ms + 0.1 ms a token to prefill, 0.05 ms a token to hand over, 20 ms a step to decode",
  stepMs: ({ prefillTokens, decodes }) =>
    (prefillTokens > 0 ? 10 + 0.1 * prefillTokens : 0) + (decodes > 0 ? 20 : 0),
  readMs: (_bytes, promptTokens) => 0.05 * promptTokens,
};

const BLIS_BYTES_PER_MS = 25e6;

/**
 * BLIS's transfer between prefill and decode instances: 0.05 ms and 25 GB/s. Its engine model is not used: engines take
 * Dynamo's times.
 */
const blisTransfer: SimulationCosts = {
  ...dynamoMocker,
  name: 'blis-transfer',
  about: "BLIS's transfer (0.05 ms, 25 GB/s) between engines with Dynamo mocker's polynomials",
  readMs: (bytes) => 0.05 + bytes / BLIS_BYTES_PER_MS,
};

const atOnce = { fixedMs: 0, msPerByte: 0 };
const zero: SimulationCosts = {
  ...noCosts,
  store: {
    ...{ loadMs: () => 0, saveMs: () => 0 },
    ...{ folder: { read: atOnce, write: atOnce }, server: { read: atOnce, write: atOnce } },
  },
};

export const NAMED_COSTS: Readonly<Record<string, SimulationCosts>> = Object.fromEntries(
  [zero, dynamoMocker, llmDInferenceSim, blisTransfer].map((costs) => [costs.name, costs]),
);
