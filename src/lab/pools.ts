/** Whether both pools have the blocks that something takes, before any engine starts. */
import { ConfigError } from '../errors.ts';

/** `say`: the sentence for a pool that has too few, by its option and what it has. Throws ConfigError. */
export function needBlocks(
  pools: Readonly<Record<'prefill' | 'decode', number>>,
  needed: number,
  say: (option: string, blocks: number) => string,
): void {
  if (pools.prefill < needed) throw new ConfigError(say('--p-blocks', pools.prefill));
  if (pools.decode < needed) throw new ConfigError(say('--d-blocks', pools.decode));
}
