/** Generates conversations of random token ids with given sizes. The same seed gives the same conversations. */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { ConfigError } from '../errors.ts';
import { seededGenerator } from '../seeded.ts';
import type { TokenConversation } from './types.ts';

export interface ConversationSizes {
  conversations: number;
  turns: number;
  /** Tokens before the first turn, the same in every conversation. */
  systemTokens: number;
  userTokens: number;
  outputTokens: number;
}

/** Ids below this one mark turns and their ends in the presets' vocabularies. */
export const LOWEST_TOKEN_ID = 8;

export function makeConversations(
  sizes: ConversationSizes,
  vocabSize: number,
  seed: number,
): TokenConversation[] {
  if (vocabSize <= LOWEST_TOKEN_ID) {
    throw new ConfigError(
      `a vocabulary of ${vocabSize} tokens is too small: a generated conversation needs more than ${LOWEST_TOKEN_ID}; use --conversation FILE`,
    );
  }
  const random = seededGenerator(seed);
  const ids = (count: number): number[] =>
    Array.from({ length: count }, () => uniformInt(random, LOWEST_TOKEN_ID, vocabSize - 1));
  const system = ids(sizes.systemTokens);
  return Array.from({ length: sizes.conversations }, (_, index) => ({
    kind: 'tokens',
    id: `random-${index + 1}`,
    turns: Array.from({ length: sizes.turns }, (_, turn) => [
      ...(turn === 0 ? system : []),
      ...ids(sizes.userTokens),
    ]),
    outputTokens: sizes.outputTokens,
  }));
}

/** Tokens of a generated conversation when it is over. */
export const conversationLength = (sizes: ConversationSizes): number =>
  sizes.systemTokens + sizes.turns * (sizes.userTokens + sizes.outputTokens);
