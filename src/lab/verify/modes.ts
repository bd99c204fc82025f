/**
 * Check (b): whatever is hit, pulled, computed, evicted, preempted, chunked or batched, the modes give the same tokens
 * and the same bits of logits. Four shapes of trouble; the sizes in them come from the seed.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { RUN_MODES } from '../../config/modes.ts';
import { plural } from '../../measure/format.ts';
import type { Disagreement } from '../../measure/report.ts';
import { type MadeSizes, madeLength } from '../../workload/made.ts';
import { runTrial, type Trial, type TrialResult } from './clusters.ts';
import type { Check, CheckEnvironment, CheckResult } from './types.ts';

export async function modeChecks(environment: CheckEnvironment): Promise<readonly Check[]> {
  return trials(environment.config.seed).map(({ name, trial }) => ({
    group: 'b',
    name,
    run: async (say, signal) => judge(await runTrial(environment, trial, say, signal)),
  }));
}

/** Blocks for one whole conversation, the null block and `spare` more. */
const poolFor = (sizes: MadeSizes, blockSize: number, spare: number): number =>
  Math.ceil(madeLength(sizes) / blockSize) + 1 + spare;

function trials(seed: number): { name: string; trial: Trial }[] {
  const random = xoroshiro128plus(seed);
  const between = (from: number, to: number): number => uniformInt(random, from, to);
  const sizes = (conversations: number, turns: number): MadeSizes => ({
    conversations,
    turns,
    systemTokens: between(10, 40),
    userTokens: between(5, 30),
    outputTokens: between(8, 24),
  });
  const base = { seed, modes: RUN_MODES, options: { checksum: true, poison: true } };
  const alone = sizes(1, 4);
  const crowd = sizes(4, 3);
  const evicting = sizes(3, 4);
  const caching = sizes(3, 3);
  return [
    {
      name: 'greedy, P keeps nothing, every turn pulls',
      trial: {
        ...base,
        settings: { threshold: 0, prefixCaching: false, blockSize: 16 },
        sizes: alone,
        temperature: 0,
        concurrency: 1,
      },
    },
    {
      name: 'temperature 1, four at once, D short of blocks, chunks of 48',
      trial: {
        ...base,
        settings: {
          threshold: 0,
          prefixCaching: false,
          blockSize: 8,
          dBlocks: poolFor(crowd, 8, between(4, 10)),
          maxNumBatchedTokens: 48,
          maxNumSeqs: 4,
        },
        sizes: crowd,
        temperature: 1,
        concurrency: 4,
      },
    },
    {
      name: 'temperature 1, three at once, P short of blocks, blocks of 32',
      trial: {
        ...base,
        settings: {
          threshold: 8,
          prefixCaching: true,
          blockSize: 32,
          pBlocks: poolFor(evicting, 32, between(1, 3)),
        },
        sizes: evicting,
        temperature: 1,
        concurrency: 3,
      },
    },
    {
      name: 'greedy, three at once, both caches on, chunks of 24',
      trial: {
        ...base,
        settings: { threshold: 4, prefixCaching: true, blockSize: 8, maxNumBatchedTokens: 24, maxNumSeqs: 3 },
        sizes: caching,
        temperature: 0,
        concurrency: 3,
      },
    },
  ];
}

function judge({ runs, comparison }: TrialResult): CheckResult {
  const pulling = runs.find(({ mode }) => mode === 'bidirectional')?.summary;
  const preemptions = runs.reduce((sum, { summary }) => sum + summary.preemptions, 0);
  const numbers = `${plural(comparison.compared_tokens, 'token')}, ${plural(pulling?.pulled_tokens ?? 0, 'token')} pulled, ${plural(preemptions, 'preemption')}`;
  if (!comparison.logits_identical) {
    return { ok: false, detail: `${place(comparison.first_disagreement!)} (${numbers})` };
  }
  if (!pulling || pulling.pulled_tokens === 0)
    return { ok: false, detail: `nothing was pulled, so nothing was shown (${numbers})` };
  return { ok: true, detail: numbers };
}

function place({ mode, reference, conversation_id, turn, token_index, what }: Disagreement): string {
  return `${mode} parts from ${reference} at ${conversation_id}, turn ${turn}, token ${token_index + 1} (${what})`;
}
