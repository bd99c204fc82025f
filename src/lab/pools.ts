/** Whether both pools have the blocks that something takes, before any engine starts. */
import { ConfigError } from '../errors.ts';

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
