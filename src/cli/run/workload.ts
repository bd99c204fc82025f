/** Chooses a run's conversations, and checks that they fit before any engine starts. */
import { type RunConfig, SHIPPED } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { fleetIn } from '../../fleet/options.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { needBlocks, poolFor } from '../../lab/pools.ts';
import type { Architecture } from '../../model/types.ts';
import { admits, boundsInWords } from '../../router/placement.ts';
import { sumOf } from '../../sum.ts';
import { parseConversations } from '../../workload/file.ts';
import { conversationLength, makeConversations } from '../../workload/random-conversations.ts';
import { SHIPPED_TOKENS, shippedConversation } from '../../workload/shipped.ts';
import type { Conversation } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';

/** Limit for generated conversations, which are kept in memory. More would take hours to serve. */
const MOST_GENERATED_TOKENS = 2 ** 25;

/** Throws ConfigError. */
export async function chooseConversations(
  config: RunConfig,
  architecture: Architecture,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<readonly Conversation[]> {
  if (config.conversation === SHIPPED) return [shippedConversation];
  if (config.conversation === null) return makeConversations(config, architecture.vocabSize, config.seed);
  return parseConversations(await deps.readTextFile(config.conversation), config.conversation);
}

/**
 * Throws ConfigError if the context or a pool cannot hold the conversations. Only checks those of known length: generated
 * ones, and the shipped one with recall's answers. For other text the engine refuses turns that do not fit.
 */
export function checkFits(config: RunConfig, options: ClusterOptions): void {
  if (config.conversation === SHIPPED) checkShippedFits(config, options);
  if (config.conversation !== null) return;
  const tokens = conversationLength(config);
  if (tokens > options.maxModelLen) {
    throw new ConfigError(
      `the conversation grows to ${tokens} tokens and the context holds ${options.maxModelLen}: lower --turns, --user-tokens, --output-tokens or --system-tokens`,
    );
  }
  const generated = config.conversations * (config.systemTokens + config.turns * config.userTokens);
  if (generated > MOST_GENERATED_TOKENS) {
    throw new ConfigError(
      `${config.conversations} conversations need ${generated} generated tokens, more than ${MOST_GENERATED_TOKENS}: lower --conversations`,
    );
  }
  const needed = poolFor(tokens, options);
  needPools(options, { prefill: needed, decode: needed }, `the conversation grows to ${tokens} tokens`);
  checkTaken(config, options);
}

/** Throws ConfigError if a prompt of a generated conversation has a length that no roleset takes. */
function checkTaken(
  { turns, systemTokens, userTokens, outputTokens }: RunConfig,
  options: ClusterOptions,
): void {
  const { rolesets } = fleetIn(options);
  for (let turn = 1; turn <= turns; turn++) {
    const prompt = systemTokens + turn * userTokens + (turn - 1) * outputTokens;
    if (rolesets.some((bounds) => admits(bounds, prompt))) continue;
    throw new ConfigError(
      `the prompt of turn ${turn} has ${prompt} tokens, and no roleset of --fleet takes it (${boundsInWords(rolesets)}): widen a roleset's promptTokens, or change the lengths of the conversation`,
    );
  }
}

/** P must hold the longest prompt, D also the longest allowed answer. Shorter answers would make later prompts shorter. */
function checkShippedFits(config: RunConfig, options: ClusterOptions): void {
  const { model, temperature, maxTokens } = config;
  const { prompt, answer } = SHIPPED_TOKENS;
  if (model !== 'recall' || temperature > 0 || maxTokens < answer) return;
  if (prompt >= options.maxModelLen)
    throw new ConfigError(
      `the conversation has prompts of up to ${prompt} tokens and the context holds ${options.maxModelLen}: give --max-model-len ${prompt + 1} or more`,
    );
  // The last token generated never gets KV.
  const most = Math.min(prompt + maxTokens, options.maxModelLen) - 1;
  const needed = { prefill: poolFor(prompt, options), decode: poolFor(most, options) };
  needPools(options, needed, `the conversation has prompts of up to ${prompt} tokens`);
}

function needPools(
  { prefill, decode, blockSize }: ClusterOptions,
  needed: Readonly<Record<'prefill' | 'decode', number>>,
  why: string,
): void {
  needBlocks(
    { prefill: prefill.numBlocks, decode: decode.numBlocks },
    needed,
    (option, numBlocks, wanted) =>
      `${option} is ${numBlocks} blocks of ${blockSize} tokens, one of them the null block, and ${why}: give ${wanted} or more`,
  );
}

/** Upper bound of the output tokens of all turns. */
export function mostOutputTokens(config: RunConfig, conversations: readonly Conversation[]): number {
  return sumOf(conversations, (c) => c.turns.length * answerOf(c, config));
}

/** Upper bound of the output tokens of a turn. */
export function longestAnswer(config: RunConfig, conversations: readonly Conversation[]): number {
  return Math.max(...conversations.map((c) => answerOf(c, config)));
}

const answerOf = (conversation: Conversation, { maxTokens }: RunConfig): number =>
  conversation.kind === 'tokens' ? conversation.outputTokens : maxTokens;
