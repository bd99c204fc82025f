/**
 * Check (b): the modes give the same tokens and bit-identical logits, whatever is hit, pulled, computed, evicted, preempted,
 * chunked or batched. Four stressful configurations with sizes drawn from the seed, and one with sliding windows.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { KvCacheSpec } from '../../config/engine.ts';
import { RUN_MODES } from '../../config/modes.ts';
import { mostBlocksInAll } from '../../engine/kv-cache-spec.ts';
import { plural } from '../../measure/format.ts';
import type { Disagreement } from '../../measure/schemas/report.ts';
import { kvCacheSpecs } from '../../model/architecture/kv-groups.ts';
import { seededGenerator } from '../../seeded.ts';
import { sumOf } from '../../sum.ts';
import { type ConversationSizes, conversationLength } from '../../workload/random-conversations.ts';
import { HYBRID, runTrial, type Trial, type TrialResult } from './clusters.ts';
import type { Check, CheckEnvironment, CheckResult } from './types.ts';

export async function modeChecks(environment: CheckEnvironment): Promise<readonly Check[]> {
  const { backend, config } = environment;
  const architecture = await backend.architecture(config.model);
  const list = trials(config.seed, kvCacheSpecs(architecture), architecture.maxModelLen);
  const hasWindows = kvCacheSpecs(architecture).length > 1;
  return [...list, ...(hasWindows ? [] : [hybrid(config.seed)])].map(({ name, trial }) => ({
    group: 'b',
    name,
    run: async (say, signal) => judge(await runTrial(environment, trial, say, signal)),
  }));
}

function hybrid(seed: number): NamedTrial {
  return {
    name: `${HYBRID}: windows passed many times, P keeps nothing, two at once, chunks of 40`,
    trial: {
      seed,
      modes: RUN_MODES,
      options: { checksum: true, poison: true },
      settings: {
        model: HYBRID,
        threshold: 0,
        prefixCaching: false,
        blockSize: 8,
        maxNumBatchedTokens: 40,
        maxNumSeqs: 2,
      },
      sizes: { conversations: 2, turns: 3, systemTokens: 150, userTokens: 60, outputTokens: 20 },
      temperature: 1,
      concurrency: 2,
    },
  };
}

interface NamedTrial {
  name: string;
  trial: Trial;
}

function trials(seed: number, groups: readonly KvCacheSpec[], longest: number): NamedTrial[] {
  /** Blocks for one whole conversation, the null block and `spare` more in each group. */
  const poolFor = (
    sizes: ConversationSizes,
    settings: { blockSize: number; maxNumBatchedTokens: number },
    spare: number,
  ): number => {
    const scheduler = { ...settings, maxModelLen: longest };
    const cache = { blockSize: settings.blockSize, groups };
    return mostBlocksInAll(conversationLength(sizes), { cache, scheduler }) + 1 + spare * groups.length;
  };
  const random = seededGenerator(seed);
  const between = (from: number, to: number): number => uniformInt(random, from, to);
  const sizes = (conversations: number, turns: number): ConversationSizes => ({
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
          dBlocks: poolFor(crowd, { blockSize: 8, maxNumBatchedTokens: 48 }, between(4, 10)),
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
          // Chunks of any length.
          pBlocks: poolFor(evicting, { blockSize: 32, maxNumBatchedTokens: longest }, between(1, 3)),
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
  const preemptions = sumOf(runs, ({ summary }) => summary.preemptions);
  const numbers = `${plural(comparison.compared_tokens, 'token')}, ${plural(pulling?.pulled_tokens ?? 0, 'token')} pulled, ${plural(preemptions, 'preemption')}`;
  if (!comparison.logits_identical) {
    return { ok: false, detail: `${place(comparison.first_disagreement!)} (${numbers})` };
  }
  if (!pulling || pulling.pulled_tokens === 0)
    return { ok: false, detail: `nothing was pulled, so this check shows nothing (${numbers})` };
  return { ok: true, detail: numbers };
}

function place({ mode, reference, conversation_id, turn, token_index, what }: Disagreement): string {
  return `${mode} differs from ${reference} at ${conversation_id}, turn ${turn}, token ${token_index + 1} (${what})`;
}
