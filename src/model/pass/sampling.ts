/**
 * Inputs of the sampling kernel for a row. The random draw depends on (seed, output index) only, never on the batch row
 * or the step.
 */
import type { ScheduledRequest } from '../../engine/types.ts';
import { mix } from '../weights/mix.ts';

export type SampleRequest = NonNullable<ScheduledRequest['sample']>;

/** 32-bit words of one row in shaders/sample.wgsl. */
export const SAMPLE_ROW_WORDS = 8;

/** Most forbidden tokens that the kernel accepts for one row. */
export const FORBIDDEN_PER_ROW = 64;

/** A number in [0, 1) with 24 bits, the same for the same (seed, outputIndex) on every machine. */
export function uniformDraw(seed: number, outputIndex: number): number {
  const high = Math.floor(seed / 2 ** 32);
  const key = mix((seed >>> 0) ^ mix(high ^ 0x9e3779b9));
  const word = mix(mix(outputIndex ^ key) + key);
  return (word >>> 8) / 2 ** 24;
}

/**
 * Whether the host samples this row from logits that it reads back, because the kernel has no room for its token lists.
 * Depends on the request alone, so that every engine draws the same token.
 */
export const isOnHost = ({ params, forbiddenTokenIds }: SampleRequest): boolean =>
  params.allowedTokenIds != null || forbiddenTokenIds.length > FORBIDDEN_PER_ROW;

/** The kernel's input rows, and the forbidden ids that they index, at most FORBIDDEN_PER_ROW per row. */
export function packSamples(samples: readonly SampleRequest[]): {
  rows: ArrayBuffer;
  forbidden: Uint32Array;
} {
  const rows = new DataView(new ArrayBuffer(4 * SAMPLE_ROW_WORDS * samples.length));
  const forbidden: number[] = [];
  samples.forEach((sample, i) => {
    const { params, outputIndex } = sample;
    const forbiddenTokenIds = isOnHost(sample) ? [] : sample.forbiddenTokenIds;
    const at = 4 * SAMPLE_ROW_WORDS * i;
    rows.setFloat32(at, uniformDraw(params.seed, outputIndex), true);
    rows.setFloat32(at + 4, params.temperature, true);
    rows.setFloat32(at + 8, params.topP, true);
    // Larger values would wrap. Any top_k above the vocabulary size means the whole vocabulary.
    rows.setUint32(at + 12, Math.min(params.topK, 0xffffffff), true);
    rows.setUint32(at + 16, forbidden.length, true);
    rows.setUint32(at + 20, forbiddenTokenIds.length, true);
    forbidden.push(...forbiddenTokenIds);
  });
  return { rows: rows.buffer as ArrayBuffer, forbidden: Uint32Array.from(forbidden) };
}
