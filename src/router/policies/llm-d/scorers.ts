/**
 * llm-d's scorers, by their names in its configuration (llm-d-router, scorer READMEs). Each gives an engine 0 to 1;
 * the highest is best. Pure: the caller collects the facts.
 */
import { maxOf, minOf } from '../pick.ts';

export const LLM_D_SCORERS = [
  'prefix-cache-scorer',
  'precise-prefix-cache-scorer',
  'queue-scorer',
  'kv-cache-utilization-scorer',
  'load-aware-scorer',
  'active-request-scorer',
  'token-load-scorer',
  'no-hit-lru-scorer',
  'session-affinity-scorer',
] as const;
export type LlmDScorer = (typeof LLM_D_SCORERS)[number];

export interface ScorerFacts {
  engineId: string;
  /**
   * Leading blocks of the prompt, at most totalBlocks: `believed` from where prompts were sent, `cached` as engines
   * report.
   */
  believedBlocks: number;
  cachedBlocks: number;
  waiting: number;
  /** 0 to 1. */
  kvUsage: number;
  /** This router's own. */
  activeRequests: number;
  activeTokens: number;
  /** When it was last sent a prompt that no engine had cached, in milliseconds; null: never. */
  lastColdMs: number | null;
  holdsSession: boolean;
}

const LOAD_AWARE_QUEUE = 128;
const TOKEN_LOAD = 4_194_304;
const WARM = 0.5;

/** Scores in the order of `engines`. `totalBlocks`: full blocks of the prompt. */
export function scorerScores(
  scorer: LlmDScorer,
  engines: readonly ScorerFacts[],
  totalBlocks: number,
): number[] {
  const share = (blocks: number) => (totalBlocks > 0 ? Math.min(1, blocks / totalBlocks) : 0);
  switch (scorer) {
    case 'prefix-cache-scorer':
      return engines.map(({ believedBlocks }) => share(believedBlocks));
    case 'precise-prefix-cache-scorer':
      return engines.map(({ cachedBlocks }) => share(cachedBlocks));
    case 'queue-scorer': {
      const most = maxOf(engines, ({ waiting }) => waiting);
      const least = minOf(engines, ({ waiting }) => waiting);
      return engines.map(({ waiting }) => (most === least ? 1 : (most - waiting) / (most - least)));
    }
    case 'kv-cache-utilization-scorer':
      return engines.map(({ kvUsage }) => 1 - kvUsage);
    case 'load-aware-scorer':
      return engines.map(({ waiting }) => 0.5 * (1 - Math.min(waiting, LOAD_AWARE_QUEUE) / LOAD_AWARE_QUEUE));
    case 'active-request-scorer': {
      const most = Math.max(
        1,
        maxOf(engines, ({ activeRequests }) => activeRequests),
      );
      return engines.map(({ activeRequests }) => (most - activeRequests) / most);
    }
    case 'token-load-scorer':
      return engines.map(({ activeTokens }) => 1 - Math.min(1, activeTokens / TOKEN_LOAD));
    case 'no-hit-lru-scorer':
      return noHitLru(engines);
    case 'session-affinity-scorer':
      return engines.map(({ holdsSession }) => (holdsSession ? 1 : 0));
  }
}

/** A prompt that no engine has goes to the engine that got such a prompt least recently, so that caches fill evenly. */
function noHitLru(engines: readonly ScorerFacts[]): number[] {
  if (engines.some(({ believedBlocks, cachedBlocks }) => believedBlocks + cachedBlocks > 0)) {
    return engines.map(() => WARM);
  }
  if (engines.length < 2) return engines.map(() => 1);
  const oldest = (i: number) => engines[i]!.lastColdMs ?? Number.NEGATIVE_INFINITY;
  const order = engines
    .map((_, i) => i)
    .sort((a, b) => (oldest(a) < oldest(b) ? -1 : oldest(a) > oldest(b) ? 1 : a - b));
  const scores = engines.map(() => 0);
  for (const [rank, i] of order.entries()) scores[i] = 1 - rank / (engines.length - 1);
  return scores;
}
