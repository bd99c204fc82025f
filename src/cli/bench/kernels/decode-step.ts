/** Whole decode steps of a model with sliding windows, alternating between a short and a long context, to show what length costs. */

import { skippedBlocks } from '../../../engine/kv-cache-spec.ts';
import { DEFAULT_SAMPLING } from '../../../engine/sampling.ts';
import { kvCacheSpecs, kvGroups } from '../../../model/architecture/kv-groups.ts';
import { loadWeights } from '../../../model/load.ts';
import { putOnDevice } from '../../../model/on-device.ts';
import { systemClock } from '../../../platform/clock.ts';
import { nodePlatform } from '../../../platform/node.ts';

export const DECODE_CONTEXTS = { short: 512, long: 4096 } as const;

export interface DecodeStepFigure {
  model: string;
  /** Milliseconds per step. */
  short: number[];
  long: number[];
}

const BLOCK_SIZE = 16;
/** Steps per context and turn; the first does not count. */
const STEPS = 4;

/** Throws AdapterError or ModelError. */
export async function measureDecodeSteps(model: string, turns: number): Promise<DecodeStepFigure> {
  const weights = await loadWeights({ name: model, files: null, dtype: 'f16', seed: 0 });
  const { architecture } = weights;
  const groups = kvGroups(architecture);
  const specs = kvCacheSpecs(architecture);
  const blocks = Math.ceil(DECODE_CONTEXTS.long / BLOCK_SIZE);
  const maxModelLen = DECODE_CONTEXTS.long;
  const { runner, destroy } = await putOnDevice(nodePlatform, weights, {
    ...{ numBlocks: 1 + groups.groups.length * blocks, kvDtype: 'f16', layout: 'contiguous', groups },
    keepLogits: false,
    limits: { maxNumBatchedTokens: 16, maxNumSeqs: 1, maxModelLen, blockSize: BLOCK_SIZE },
    clock: systemClock,
  });
  try {
    await runner.warmUp();
    const figure: DecodeStepFigure = { model, short: [], long: [] };
    const params = { ...DEFAULT_SAMPLING, maxTokens: 1, ignoreEos: true };
    const sample = { params, outputIndex: 0, forbiddenTokenIds: [] };
    for (let turn = 0; turn < turns; turn++) {
      for (const which of ['short', 'long'] as const) {
        const startPosition = DECODE_CONTEXTS[which] - 1;
        const blockIds = specs.map((spec, group) =>
          Array.from({ length: Math.ceil((startPosition + 1) / BLOCK_SIZE) }, (_, i) =>
            i < skippedBlocks(spec, startPosition, BLOCK_SIZE) ? 0 : 1 + group * blocks + i,
          ),
        );
        for (let step = 0; step < STEPS; step++) {
          const begun = systemClock.now();
          await runner.execute({
            step: 0,
            requests: [{ requestId: 'step', tokenIds: [1], startPosition, blockIds, sample }],
          });
          if (step > 0) figure[which].push(systemClock.now() - begun);
        }
      }
    }
    return figure;
  } finally {
    destroy('the benchmark ended');
  }
}
