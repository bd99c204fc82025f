/** Which models the kernels support, and in how many parts attention is computed. Needs no device. */
import { expect, it } from 'vitest';
import { ModelError } from '../../src/errors.ts';
import { EVERY_KEY, widestWindow, windowOf } from '../../src/model/architecture/layer-attention.ts';
import { presetArchitecture, presetNames } from '../../src/model/architecture/presets.ts';
import {
  ATTENTION_PART,
  attentionParts,
  blockedTileOf,
  contextParts,
} from '../../src/model/kernels/attention-variants.ts';
import { adapterForm, checkKernelsServe } from '../../src/model/kernels/kernel-variants.ts';
import { putOnDevice } from '../../src/model/on-device.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { nodePlatform } from '../../src/platform/node.ts';

it('the kernels support heads of any multiple of 4 dimensions up to 256', () => {
  for (const name of presetNames) checkKernelsServe(presetArchitecture(name));
  const nano = presetArchitecture('nano');
  for (const headDim of [4, 20, 256]) checkKernelsServe({ ...nano, headDim });
  for (const headDim of [2, 30, 260]) {
    const check = () => checkKernelsServe({ ...nano, headDim });
    expect(check).toThrow(ModelError);
    expect(check).toThrow(`head_dim ${headDim}: wanted query heads`);
  }
});

it('contextParts is the largest number of parts that any window in a context touches', () => {
  for (const window of [1, 2, ATTENTION_PART, ATTENTION_PART + 1, ATTENTION_PART + 2, 700]) {
    let most = 0;
    for (let position = 0; position < 5 * ATTENTION_PART; position++) {
      const first = Math.max(0, position + 1 - window);
      const touched = Math.floor(position / ATTENTION_PART) - Math.floor(first / ATTENTION_PART) + 1;
      expect(touched).toBeLessThanOrEqual(contextParts(position + 1, window));
      most = Math.max(most, touched);
    }
    expect(contextParts(5 * ATTENTION_PART, window)).toBe(most);
  }
  expect(contextParts(5 * ATTENTION_PART + 1, EVERY_KEY)).toBe(6);
});

it('a window of more keys than the kernels can count is every key', () => {
  const windows = [8, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 32 + 8];
  const attention = windows.map((window) => ({ kind: 'sliding' as const, window }));
  const found = windows.map((_, layer) => windowOf({ attention }, layer));
  expect(found).toEqual([8, EVERY_KEY, EVERY_KEY, EVERY_KEY, EVERY_KEY]);
  expect(widestWindow({ attention, numLayers: 5 })).toBe(EVERY_KEY);
});

it('attention is split when there are few workgroups, but never within a window of one part', () => {
  const form = adapterForm({ subgroupSize: 8, software: true });
  const step = { rows: 1, longestContext: 4096, workgroups: 1 };
  expect(attentionParts(step, 4, form)).toBe(16);
  expect(attentionParts({ ...step, workgroups: 2 }, 4, form)).toBe(1);
  expect(attentionParts({ ...step, window: 512 }, 4, form)).toBe(3);
  expect(attentionParts({ ...step, window: ATTENTION_PART }, 4, form)).toBe(1);
});

it('blocked attention fits into the guaranteed workgroup memory, and its tile has a thread for each item', () => {
  for (let headDim = 4; headDim <= 256; headDim += 4) {
    const { many: rows, keys } = blockedTileOf(headDim, 4);
    const [dims4, quads, threads] = [headDim / 4, keys / 4, 128];
    // The arrays of attention_blocked.wgsl and its parts: queries, weights, kept; partial, totals; places.
    const vec4s = rows * (dims4 + 1) + rows * (quads + 1) + dims4 * (keys + 1);
    expect(16 * vec4s + 4 * 2 * rows * quads + 4 * keys, `${headDim}`).toBeLessThanOrEqual(16_384);
    expect(rows * quads, `${headDim}`).toBeLessThanOrEqual(threads);
    expect(2 * Math.floor(threads / dims4), `${headDim}`).toBeGreaterThanOrEqual(rows);
    expect(Math.ceil((keys * dims4) / threads), `${headDim}`).toBeLessThanOrEqual(4);
    expect(ATTENTION_PART % keys).toBe(0);
  }
});

it('an unsupported head size is rejected before a device is requested', async () => {
  const weights = new SeededWeights({ ...presetArchitecture('nano'), headDim: 6 }, 1, 'f16');
  const limits = { maxNumBatchedTokens: 64, maxNumSeqs: 4, maxModelLen: 256, blockSize: 1 };
  const untouched = { ...nodePlatform, createGpu: () => Promise.reject(new Error('a device was asked for')) };
  const options = { limits, numBlocks: 8, kvDtype: 'f16', layout: 'contiguous', keepLogits: false } as const;
  const attempt = putOnDevice(untouched, weights, { ...options, clock: systemClock });
  await expect(attempt).rejects.toThrow('head_dim 6: wanted query heads');
});
