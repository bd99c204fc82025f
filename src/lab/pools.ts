/** Checks, before any engine starts, that both pools have enough blocks. */
import { cacheGroups, mostBlocksInAll } from '../engine/kv-cache-spec.ts';
import { ConfigError } from '../errors.ts';
import type { ClusterOptions } from '../fleet/types.ts';

export type PoolNeeds = Pick<
  ClusterOptions,
  'blockSize' | 'kvCacheGroups' | 'allFullKv' | 'maxModelLen' | 'maxNumBatchedTokens'
>;

/** Blocks of a pool that can hold a request of `tokens` tokens, plus the null block. */
export function poolFor(tokens: number, options: PoolNeeds): number {
  const cache = { blockSize: options.blockSize, groups: cacheGroups(options) };
  return mostBlocksInAll(tokens, { cache, scheduler: options }) + 1;
}

type Pools = Readonly<Record<'prefill' | 'decode', number>>;

/** Throws ConfigError if a pool has too few blocks. `say` returns the message, from its option, its blocks and those needed. */
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
