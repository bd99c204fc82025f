/**
 * Reads back sampled tokens, their digests and, if requested, their logits. Samples on the host what the kernel cannot.
 */
import type { SampledRow } from '../../engine/types.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { StagingRing } from '../../gpu/staging.ts';
import { pad4 } from '../types.ts';
import type { Activations } from './activations.ts';
import { sampleOnHost } from './sample-on-host.ts';
import { isOnHost, type SampleRequest } from './sampling.ts';
import type { Piece } from './step-inputs.ts';

const PLACES = 2;
/** token id, digest low, digest high, unused. */
const RESULT_BYTES = 16;

export class SampleReadback {
  readonly #activations: Activations;
  readonly #vocabSize: number;
  readonly #keepLogits: boolean;
  readonly #ring: StagingRing;

  constructor(gpu: GpuDevice, activations: Activations, vocabSize: number, keepLogits: boolean) {
    this.#activations = activations;
    this.#vocabSize = vocabSize;
    this.#keepLogits = keepLogits;
    this.#ring = new StagingRing(gpu, {
      label: 'sampled',
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      places: PLACES,
      bufferBytes: activations.results.size,
    });
  }

  get bytes(): number {
    return this.#ring.bytes;
  }

  /**
   * `run` submits the piece's last kernels followed by the given copies, and awaits `done`, which maps the copies'
   * target. The same round trip thus shows completion and delivers the results.
   */
  async read(
    piece: Piece,
    run: (copy: (encoder: GPUCommandEncoder) => void, done: () => Promise<unknown>) => Promise<void>,
  ): Promise<SampledRow[]> {
    const count = piece.samples.length;
    const wanted = piece.samples.some(({ sample }) => this.#isKept(sample) || isOnHost(sample));
    const logitBytes = wanted ? 4 * pad4(this.#vocabSize) * count : 0;
    const staging = await this.#ring.acquire(RESULT_BYTES * count + logitBytes);
    const copy = (encoder: GPUCommandEncoder) => {
      encoder.copyBufferToBuffer(this.#activations.results, 0, staging, 0, RESULT_BYTES * count);
      if (logitBytes === 0) return;
      encoder.copyBufferToBuffer(this.#activations.logits, 0, staging, RESULT_BYTES * count, logitBytes);
    };
    try {
      await run(copy, () => staging.mapAsync(GPUMapMode.READ));
      const sampled = this.#parse(piece, staging.getMappedRange());
      staging.unmap();
      return sampled;
    } finally {
      this.#ring.release(staging);
    }
  }

  destroy(): void {
    this.#ring.destroy();
  }

  #isKept(sample: SampleRequest): boolean {
    return this.#keepLogits || sample.params.keepLogits === true;
  }

  #parse({ samples }: Piece, mapped: ArrayBuffer): SampledRow[] {
    const words = new Uint32Array(mapped, 0, 4 * samples.length);
    return samples.map(({ requestId, sample }, i) => {
      const [drawn, low, high] = [words[4 * i]!, words[4 * i + 1]!, words[4 * i + 2]!];
      const at = RESULT_BYTES * samples.length + 4 * pad4(this.#vocabSize) * i;
      const row = () => new Float32Array(mapped, at, this.#vocabSize);
      const onDevice = drawn < this.#vocabSize ? drawn : null;
      const tokenId = isOnHost(sample) ? sampleOnHost(row(), sample) : onDevice;
      const logits = this.#isKept(sample) ? row().slice() : null;
      return { requestId, tokenId, logitsDigest: hex(high) + hex(low), logits };
    });
  }
}

const hex = (word: number): string => word.toString(16).padStart(8, '0');
