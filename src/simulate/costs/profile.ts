/**
 * The cost profile that the cost-aware policy begins with in a simulation, from the simulation's own costs of prefills,
 * pulls and loads.
 */
import type { CostProfile } from '../../config/cost-profile.ts';
import type { KvCacheSpec } from '../../config/engine.ts';
import { kvBytesOf } from '../../connector/policy/cost-model.ts';
import { fitNonNegative } from '../../measure/least-squares.ts';
import { sumOf } from '../../sum.ts';
import { prefillSteps } from './shapes.ts';
import type { SimulationCosts } from './types.ts';

export interface ProfileDeps {
  blockSize: number;
  /** Bytes of a KV block in the pool. */
  blockBytes: number;
  groups: readonly KvCacheSpec[];
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
}

const TOKENS = [64, 128, 256, 512, 1024, 2048, 4096, 8192];

/** Where costs are not linear, the profile is a fit. */
export function profileOf(costs: SimulationCosts, deps: ProfileDeps): CostProfile {
  const { blockSize, blockBytes, groups, maxNumBatchedTokens } = deps;
  // P computes what it does not pull, and decodes nothing.
  const place = { role: 'prefill' as const, poolUsed: 0, maxNumSeqs: deps.maxNumSeqs };
  const prefills = TOKENS.map((tokens) => prefillSteps(tokens, maxNumBatchedTokens));
  const prefill = fitNonNegative(
    prefills.map((steps) => [
      1,
      sumOf(steps, ({ prefillTokens, decodes }) => prefillTokens + decodes),
      sumOf(steps, ({ prefillContext, decodeContext }) => prefillContext + decodeContext),
    ]),
    prefills.map((steps) => positive(sumOf(steps, (shape) => costs.stepMs(shape, place)))),
  );
  const [stepMs, tokenMs, contextMs] = prefill.coefficients as [number, number, number];
  const bytesOf = kvBytesOf(blockSize, blockBytes, groups);
  const byBytes = (msOf: (bytes: number, tokens: number) => number) => {
    const { coefficients } = fitNonNegative(
      TOKENS.map((tokens) => [1, bytesOf(0, tokens)]),
      TOKENS.map((tokens) => positive(msOf(bytesOf(0, tokens), tokens))),
    );
    const [fixed, perByte] = coefficients as [number, number];
    return { fixed_ms: fixed, ms_per_byte: perByte };
  };
  const pull = byBytes(costs.readMs);
  const { store } = costs;
  const load = { ...(store ? byBytes(store.loadMs) : pull), samples: TOKENS.length };
  const save = { ...(store ? byBytes(store.saveMs) : pull), samples: TOKENS.length };
  return {
    ...{ kvferry_cost_profile: 1, kvferry: '', date: '', model: costs.model ?? '', weight_dtype: 'f32' },
    ...{ adapter: costs.name, link: null, layout: 'contiguous', kv_cache_groups: [...groups] },
    ...{ block_size: blockSize, block_bytes: blockBytes },
    pull: { overhead_ms: 2 * costs.messageMs, ...pull },
    prefill: { fixed_ms: stepMs, ms_per_token: tokenMs, ms_per_token_context: contextMs },
    store: { load, save, folder_read: null },
    fit: {
      ...{ samples: TOKENS.length, rounds: 1, least_tokens: TOKENS[0]!, most_tokens: TOKENS.at(-1)! },
      ...{ ttft_r2: 1, ttft_median_error: prefill.medianError, transfer_r2: 1, transfer_median_error: 0 },
    },
    recommended_threshold: null,
  };
}

/** Errors of a fit are relative, so no time may be 0. */
const positive = (ms: number): number => Math.max(1e-6, ms);
