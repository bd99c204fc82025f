/** What the sampling kernel is given for a row. The draw is keyed by (seed, output index): never by batch row or step. */
import type { ScheduledRequest } from '../engine/types.ts';
import { mix } from './mix.ts';

export type SampleRequest = NonNullable<ScheduledRequest['sample']>;

/** 32-bit words of one row in shaders/sample.wgsl. */
export const SAMPLE_ROW_WORDS = 8;

/** Tokens that a row's kernel can be told to leave out. */
export const FORBIDDEN_PER_ROW = 64;

/** A number in [0, 1) with 24 bits, the same for the same (seed, outputIndex) everywhere. */
export function uniformDraw(seed: number, outputIndex: number): number {
  const high = Math.floor(seed / 2 ** 32);
  const key = mix((seed >>> 0) ^ mix(high ^ 0x9e3779b9));
  const word = mix(mix(outputIndex ^ key) + key);
  return (word >>> 8) / 2 ** 24;
}

/**
 * Whether the host draws a row's token, from the logits that it reads back: the kernel has no room for what it may draw. By the
 * request alone, so that every engine draws the same.
 */
export const isOnHost = ({ params, forbiddenTokenIds }: SampleRequest): boolean =>
  params.allowedTokenIds != null || forbiddenTokenIds.length > FORBIDDEN_PER_ROW;

/** Rows of the sampling kernel, and the forbidden ids they point into, at most FORBIDDEN_PER_ROW for each. */
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
    // A larger one would come out as another number: more than any vocabulary is all of it.
    rows.setUint32(at + 12, Math.min(params.topK, 0xffffffff), true);
    rows.setUint32(at + 16, forbidden.length, true);
    rows.setUint32(at + 20, forbiddenTokenIds.length, true);
    forbidden.push(...forbiddenTokenIds);
  });
  return { rows: rows.buffer as ArrayBuffer, forbidden: Uint32Array.from(forbidden) };
}
