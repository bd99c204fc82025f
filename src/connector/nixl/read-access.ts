/**
 * Decides which blocks of a hold a reader may read, from its claim over its own prompt and the blocks that it names. Pure:
 * ignores deadlines and pins nothing.
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
  /** By KV cache group. */
  groups: readonly KvCacheSpec[];
  claim: ClaimPrefix;
}

/** The blocks of the claimed prompt prefix; null unless that is also a prefix of the hold, with the same salt. */
export function provenBlocks(
  { tokenIds, cacheSalt, blockIds }: Pick<SendRequest, 'tokenIds' | 'cacheSalt' | 'blockIds'>,
  prompt: PrefixClaim,
  { claim, blockSize }: ReadRules,
): BlockIds | null {
  const { numTokens } = prompt;
  if (numTokens > tokenIds.length || !sameClaim(claim(tokenIds, numTokens, cacheSalt), prompt)) return null;
  return promptBlocks(blockIds, numTokens, blockSize);
}

/** Whether a READ may name these `blockIds`. `sequence`: the proven blocks; `numTokens`: the proven tokens. */
export function mayRead(
  blockIds: BlockIds,
  sequence: BlockIds,
  numTokens: number,
  rules: ReadRules,
): boolean {
  const requested = byGroup(sequence, (_ids, group) => blockIds[group] ?? []);
  // Nothing may be requested for a group that does not exist.
  const isKnown = blockIds.every((ids, group) => group < requested.length || ids.length === 0);
  return isKnown && includesWindows(requested, numTokens, rules) && areTrailing(requested, sequence);
}

/**
 * Whether each windowed group is read as far back as the next token sees, or as far as the longest list goes, if the reader has
 * the rest. So full groups are never read alone.
 */
function includesWindows(requested: BlockIds, numTokens: number, { blockSize, groups }: ReadRules): boolean {
  const most = Math.max(...requested.map((ids) => ids.length));
  return groups.every((spec, group) => {
    const visible = Math.ceil(numTokens / blockSize) - skippedBlocks(spec, numTokens, blockSize);
    return requested[group]!.length >= Math.min(most, visible);
  });
}

/** Whether these are the last blocks of the sequence in every group: a reader may omit only a prefix that it has. */
const areTrailing = (requested: BlockIds, sequence: BlockIds): boolean =>
  requested.every((ids, group) => {
    const before = sequence[group]!.length - ids.length;
    return ids.every((id, i) => id === sequence[group]![before + i] && id !== NULL_BLOCK);
  });
