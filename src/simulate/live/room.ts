/** Whether a fleet's pools can hold the conversations that would come. */
import { ConfigError } from '../../errors.ts';
import type { LiveLoadSettings } from './settings.ts';

/** Dynamo's mocker has blocks of 64 tokens. */
export const BLOCK_SIZE = 64;
/** Questions and answers that are longer are cut, as many times their mean. */
export const LONGEST = 3;

/** Tokens that a pool holds; one block is the null block. */
export const roomOf = (blocks: number): number => (blocks - 1) * BLOCK_SIZE;

/** Tokens that a conversation may come to. */
export const longestOf = ({ turns, question, answer, system }: LiveLoadSettings): number =>
  system + turns * LONGEST * (question + answer);

/** Throws ConfigError for a load with conversations that no engine could hold. */
export function checkRoom(blocks: number, load: LiveLoadSettings): void {
  const longest = longestOf(load);
  if (longest > roomOf(blocks))
    throw new ConfigError(
      `a conversation may come to ${longest} tokens, and ${blocks} blocks hold ${roomOf(blocks)}: give more blocks, fewer turns, or shorter questions and answers`,
    );
}
