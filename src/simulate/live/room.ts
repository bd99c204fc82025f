/** Checks whether a fleet's pools can hold the conversations of a load. */
import { ConfigError } from '../../errors.ts';
import type { LiveLoadSettings } from './settings.ts';

/** Tokens of a block, as in Dynamo's mocker. */
export const BLOCK_SIZE = 64;
/** Longest question or answer, as a multiple of the mean; longer ones are cut. */
export const LONGEST = 3;

/** Tokens that a pool holds; one block is the null block. */
export const roomOf = (blocks: number): number => (blocks - 1) * BLOCK_SIZE;

/** Most tokens of a conversation. */
export const longestOf = ({ turns, question, answer, system }: LiveLoadSettings): number =>
  system + turns * LONGEST * (question + answer);

/** Throws ConfigError for a load with conversations that no engine could hold. */
export function checkRoom(blocks: number, load: LiveLoadSettings): void {
  const longest = longestOf(load);
  if (longest > roomOf(blocks))
    throw new ConfigError(
      `a conversation may have up to ${longest} tokens, and ${blocks} blocks hold ${roomOf(blocks)}: give more blocks, fewer turns, or shorter questions and answers`,
    );
}
