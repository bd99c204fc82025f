/**
 * Check (d): damage to the KV that an engine reads must change the digests of logits. The damaged run is compared with a
 * monolithic one, which reads nothing; check (b) shows that they are equal without damage. The damaged run is first: otherwise
 * a block that is not written could still hold the same KV from the run before.
 */
import { messageOf } from '../../errors.ts';
import type { InjectedFault } from '../../fleet/types.ts';
import type { Comparison } from '../../measure/schemas/report.ts';
import type { GroupFault } from '../../transport/faults.ts';
import { HYBRID, runTrial } from './clusters.ts';
import type { Check, CheckEnvironment } from './types.ts';

const GROUP_FAULTS: Record<GroupFault | 'short-window', string> = {
  'wrong-group': "a window's block has another group's content",
  'null-block': 'the null block is read instead of a block',
  'short-window': 'a window ends one token early',
};

const FAULTS: Record<Exclude<InjectedFault['kind'], keyof typeof GROUP_FAULTS>, string> = {
  'drop-block': 'one block is not written',
  'swap-blocks': 'two blocks are swapped',
  'shift-token': 'a block is off by one token',
  'flip-bit': 'one bit is flipped',
};

/** P reads from D for the first time in turn 2. */
const sizes = { conversations: 1, turns: 2, systemTokens: 40, userTokens: 24, outputTokens: 12 };

export async function negativeControls(environment: CheckEnvironment): Promise<readonly Check[]> {
  return [...controls(environment, FAULTS, null), ...controls(environment, GROUP_FAULTS, HYBRID)];
}

/** Tokens per block; small, for many blocks. */
const BLOCK_SIZE = 8;
/**
 * Two swapped full blocks contain the same keys and values in another order. Only the order of summation would reveal that, and
 * not if products round to f16. So both READs here are of two blocks, and the second is not full.
 */
const twoBlocks = { blockSize: 64, sizes: { ...sizes, systemTokens: 50 } };

/** P reads 182 tokens. With blocks of 8, a window of 128 that is one token shorter begins at a block's start. */
const beyondWindow = { ...sizes, systemTokens: 150, outputTokens: 9 };

/** Errors that detect a window that is too short before anything is computed from it. */
const NOTICED_BEFORE = [
  { message: /computes with block 0/, by: 'the runner found a block of the window missing' },
  { message: /no hold matches/, by: 'the holder refused to give less than a window' },
];

function controls(
  environment: CheckEnvironment,
  faults: Partial<Record<InjectedFault['kind'], string>>,
  model: string | null,
): Check[] {
  const kinds = Object.entries(faults) as [InjectedFault['kind'], string][];
  return (['prefill', 'decode'] as const).flatMap((engine) =>
    kinds.map(([kind, what]) => control(environment, { engine, kind }, what, model)),
  );
}

/** `model`: null for the user's model. */
function control(
  environment: CheckEnvironment,
  fault: InjectedFault,
  what: string,
  model: string | null,
): Check {
  const reader = fault.engine === 'prefill' ? 'P reads from D' : 'D reads from P';
  return {
    group: 'd',
    name: `${reader}: ${what}`,
    async run(say, signal) {
      const usual = { blockSize: BLOCK_SIZE, sizes: model ? beyondWindow : sizes };
      const { blockSize, sizes: lengths } = fault.kind === 'swap-blocks' ? twoBlocks : usual;
      const trial = {
        settings: { threshold: 0, prefixCaching: false, blockSize, ...(model ? { model } : {}) },
        sizes: lengths,
        seed: environment.config.seed,
        temperature: 1,
        concurrency: 1,
        modes: ['bidirectional', 'monolithic'] as const,
        // Without checksums and NaN in new blocks, only the model's output can reveal the damage.
        options: { checksum: false, poison: false, fault },
      };
      let comparison: Comparison;
      try {
        ({ comparison } = await runTrial(environment, trial, say, signal));
      } catch (error) {
        signal.throwIfAborted();
        if (fault.kind !== 'short-window') throw error;
        const noticed = NOTICED_BEFORE.find(({ message }) => message.test(messageOf(error)));
        if (!noticed) throw error;
        return { ok: true, detail: `noticed before computing: ${noticed.by}` };
      }
      const first = comparison.first_disagreement;
      return first
        ? {
            ok: true,
            detail: `noticed at turn ${first.turn}, token ${first.token_index + 1}: different ${first.what}`,
          }
        : { ok: false, detail: 'the damage was not noticed: it changed no token and no logit' };
    },
  };
}
