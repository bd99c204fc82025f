/** Whether both pools have the blocks that something takes, before any engine starts. */
import { FULL_GROUP, keptBy, mostBlocksInAll } from '../engine/kv-cache-spec.ts';
import { ConfigError } from '../errors.ts';
import type { ClusterOptions } from '../fleet/types.ts';

export type PoolNeeds = Pick<
  ClusterOptions,
  'blockSize' | 'kvCacheGroups' | 'allFullKv' | 'maxModelLen' | 'maxNumBatchedTokens'
>;

/** Blocks of a pool that holds so many tokens of a request, and the null block. */
export function poolFor(tokens: number, options: PoolNeeds): number {
  const { blockSize, kvCacheGroups = FULL_GROUP, allFullKv = false } = options;
  const groups = keptBy(kvCacheGroups, allFullKv);
  return mostBlocksInAll(tokens, { cache: { blockSize, groups }, scheduler: options }) + 1;
}

type Pools = Readonly<Record<'prefill' | 'decode', number>>;

/** `say`: the sentence for a pool that has too few, by its option, what it has and what is needed. Throws ConfigError. */
export function needBlocks(
  pools: Pools,
  needed: number | Pools,
  say: (option: string, blocks: number, needed: number) => string,
): void {
  for (const [role, option] of [
    ['prefill', '--p-blocks'],
    ['decode', '--d-blocks'],
  ] as const) {
    const least = typeof needed === 'number' ? needed : needed[role];
    if (pools[role] < least) throw new ConfigError(say(option, pools[role], least));
  }
}
