/** A model on a device of this thread, without an engine, for checks that read logits and KV directly. */
import type { Arithmetic } from '../../config/arithmetic.ts';
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import type { BlockId, SampledRow } from '../../engine/types.ts';
import { type ModelOnDevice, putOnDevice } from '../../model/on-device.ts';
import type { Architecture, ModelWeights, WeightDtype } from '../../model/types.ts';
import { systemClock } from '../../platform/clock.ts';
import type { Platform } from '../../platform/types.ts';
import type { SequenceBlocks } from './kv-layout.ts';

export interface GpuModelOptions {
  kvDtype: WeightDtype;
  arithmetic: Arithmetic;
  blockSize: number;
  /** Blocks in the pool, including the null block. */
  numBlocks: number;
  /** Tokens of the longest sequence; a chunk may be as long. */
  maxModelLen: number;
}

const greedy = { ...DEFAULT_SAMPLING, maxTokens: 1, ignoreEos: true };

export class GpuModel {
  readonly architecture: Architecture;
  readonly options: GpuModelOptions;
  readonly #on: ModelOnDevice;
  #steps = 0;

  private constructor(architecture: Architecture, options: GpuModelOptions, on: ModelOnDevice) {
    this.architecture = architecture;
    this.options = options;
    this.#on = on;
  }

  /** The caller must close the model. Throws AdapterError, ModelError or ConfigError. */
  static async open(platform: Platform, weights: ModelWeights, options: GpuModelOptions): Promise<GpuModel> {
    const { kvDtype, arithmetic, blockSize, numBlocks, maxModelLen } = options;
    const on = await putOnDevice(platform, weights, {
      numBlocks,
      kvDtype,
      arithmetic,
      layout: 'contiguous',
      keepLogits: true,
      clock: systemClock,
      limits: { maxNumBatchedTokens: maxModelLen, maxNumSeqs: 1, maxModelLen, blockSize },
    });
    try {
      await on.runner.warmUp();
      // Makes reads of unwritten blocks detectable.
      for (let id = 1; id < numBlocks; id++) on.kv.poison(0, [id]);
      return new GpuModel(weights.architecture, options, on);
    } catch (error) {
      on.gpu.destroy('the model could not be set up');
      throw error;
    }
  }

  /** Computes a sequence's tokens from startPosition as one chunk. Returns the greedy token and logits after the last. */
  async feed(
    tokenIds: readonly number[],
    startPosition: number,
    blockIds: readonly BlockId[],
  ): Promise<SampledRow> {
    const sample = { params: greedy, outputIndex: 0, forbiddenTokenIds: [] };
    const [sampled] = await this.#on.runner.execute({
      step: this.#steps++,
      requests: [{ requestId: 'check', tokenIds, startPosition, blockIds: [blockIds], sample }],
    });
    return sampled!;
  }

  async readBlocks(blockIds: readonly BlockId[]): Promise<SequenceBlocks> {
    const blocks: Uint8Array[] = [];
    for (const id of blockIds) blocks.push(await this.#on.kv.readBlock(id));
    return blocks;
  }

  close(): void {
    this.#on.destroy('the check ended');
  }
}
