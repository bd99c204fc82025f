/**
 * llm-d's scorers by their names in its configuration (llm-d-router, scorer READMEs): each gives an engine 0 to 1, most is
 * best. Pure: what they look at is gathered before.
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
  /** Leading blocks of the prompt, of totalBlocks: where prompts were sent, and what engines told of their caches. */
  believedBlocks: number;
  cachedBlocks: number;
  waiting: number;
  /** 0..1 */
  kvUsage: number;
  /** Of this router's. */
  activeRequests: number;
  activeTokens: number;
  /** When it was last sent a prompt that nobody had cached; null: never. */
  lastColdMs: number | null;
  holdsSession: boolean;
}

const LOAD_AWARE_QUEUE = 128;
const TOKEN_LOAD = 4_194_304;
const WARM = 0.5;

/** `totalBlocks`: of the prompt, whole ones. By engine's place. */
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

/** A prompt that nobody has goes to whom one came longest ago: caches fill evenly. */
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
