/**
 * What of a hold a reader may have: by what it shows of its own prompt, and by the blocks that it names. Knows no times, and
 * pins nothing.
 */
import type { KvCacheSpec } from '../../config/engine.ts';
import { byGroup } from '../../engine/block-table.ts';
import { skippedBlocks } from '../../engine/kv-cache-spec.ts';
import { type BlockIds, NULL_BLOCK } from '../../engine/types.ts';
import { type ClaimPrefix, type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { SendRequest } from './metadata.ts';
import { promptBlocks } from './params.ts';

export interface ReadRules {
  blockSize: number;
  /** What each KV cache group keeps. */
  groups: readonly KvCacheSpec[];
  claim: ClaimPrefix;
}

/** Those of the prompt's first tokens; null when they are not the hold's first tokens too. */
export function provenBlocks(
  { tokenIds, cacheSalt, blockIds }: Pick<SendRequest, 'tokenIds' | 'cacheSalt' | 'blockIds'>,
  prompt: PrefixClaim,
  { claim, blockSize }: ReadRules,
): BlockIds | null {
  const { numTokens } = prompt;
  if (numTokens > tokenIds.length || !sameClaim(claim(tokenIds, numTokens, cacheSalt), prompt)) return null;
  return promptBlocks(blockIds, numTokens, blockSize);
}

/** Whether a READ may name these `blockIds` of the sequence, of whose tokens so many are proven. */
export function mayName(
  blockIds: BlockIds,
  sequence: BlockIds,
  numTokens: number,
  rules: ReadRules,
): boolean {
  const asked = byGroup(sequence, (_ids, group) => blockIds[group] ?? []);
  // A group that there is not is nothing that can be asked for.
  const isKnown = blockIds.every((ids, group) => group < asked.length || ids.length === 0);
  return isKnown && windowsToo(asked, numTokens, rules) && areLast(asked, sequence);
}

/** Whether every windowed group is read as far back as the next token sees, unless the reader has that: never another group alone. */
function windowsToo(asked: BlockIds, numTokens: number, { blockSize, groups }: ReadRules): boolean {
  const most = Math.max(...asked.map((ids) => ids.length));
  return groups.every((spec, group) => {
    const seen = Math.ceil(numTokens / blockSize) - skippedBlocks(spec, numTokens, blockSize);
    return asked[group]!.length >= Math.min(most, seen);
  });
}

/** Whether these are, by group, the last of the sequence's blocks: a reader leaves out what it has from the start on. */
const areLast = (asked: BlockIds, sequence: BlockIds): boolean =>
  asked.every((ids, group) => {
    const before = sequence[group]!.length - ids.length;
    return ids.every((id, i) => id === sequence[group]![before + i] && id !== NULL_BLOCK);
  });
