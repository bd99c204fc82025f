/**
 * Check (d): damage to what an engine reads must change the digests of logits. A monolithic run, which reads nothing,
 * is what the damaged one is held against; check (b) shows that without damage they are equal. The damaged one comes
 * first: a block that is not written would otherwise still hold the same KV from the run before.
 */
import type { InjectedFault } from '../../fleet/types.ts';
import { runTrial } from './clusters.ts';
import type { Check, CheckEnvironment } from './types.ts';

const FAULTS: Record<InjectedFault['kind'], string> = {
  'drop-block': 'one block is not written',
  'swap-blocks': 'two blocks change places',
  'shift-token': 'a block is off by one token',
  'flip-bit': 'one bit is flipped',
};

/** P reads from D for the first time in turn 2. */
const sizes = { conversations: 1, turns: 2, systemTokens: 40, userTokens: 24, outputTokens: 12 };

export async function negativeControls(environment: CheckEnvironment): Promise<readonly Check[]> {
  const kinds = Object.keys(FAULTS) as InjectedFault['kind'][];
  return (['prefill', 'decode'] as const).flatMap((engine) =>
    kinds.map((kind) => control(environment, { engine, kind })),
  );
}

function control(environment: CheckEnvironment, fault: InjectedFault): Check {
  const reader = fault.engine === 'prefill' ? 'P reads from D' : 'D reads from P';
  return {
    group: 'd',
    name: `${reader}: ${FAULTS[fault.kind]}`,
    async run(say, signal) {
      const trial = {
        settings: { threshold: 0, prefixCaching: false, blockSize: 8 },
        sizes,
        seed: environment.config.seed,
        temperature: 1,
        concurrency: 1,
        modes: ['bidirectional', 'monolithic'] as const,
        // No checksum and no NaN in new blocks: the model alone has to show it.
        options: { checksum: false, poison: false, fault },
      };
      const { comparison } = await runTrial(environment, trial, say, signal);
      const first = comparison.first_disagreement;
      return first
        ? {
            ok: true,
            detail: `noticed at turn ${first.turn}, token ${first.token_index + 1}: other ${first.what}`,
          }
        : { ok: false, detail: 'the damage changed nothing: it goes unnoticed' };
    },
  };
}
