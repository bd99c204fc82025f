import { expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { kernelCost, kernelPlace } from '../../src/model/pass/kernel-costs.ts';
import { cutIntoPieces } from '../../src/model/pass/step-inputs.ts';
import { request, tokens } from './runner-harness.ts';

/** The first 10 rows of a prompt; hidden 64, 2 heads and 1 KV head of 32, ffn 192, vocabulary 512. */
const nano = presetArchitecture('nano');
const requests = [request('a', tokens(10, nano.vocabSize), 0, 10, [1])];
const [piece] = cutIntoPieces(
  { step: 1, requests },
  { blockSize: 16, numBlocks: 4, vocabSize: nano.vocabSize, maxModelLen: 64 },
  { rows: 64, attendedKeys: 10_000, logitRows: 4 },
);
const bytesOf = (label: string, architecture = nano): number =>
  kernelCost(kernelPlace(label), piece!, { architecture, weightBytes: 2, kvBytes: 2, vocabularyPieces: 1 })
    .bytes;

it.each([
  // Rows read and written, f32.
  ['layer 0 input norm', 10 * 64 * 4 * 2],
  ['layer 1 mlp norm', 10 * 64 * 4 * 2],
  ['final norm', 1 * 64 * 4 * 2],
  // Weights in f16, rows in and out in f32; o and down also read the residual.
  ['layer 0 qkv', 64 * 128 * 2 + 10 * (64 + 128) * 4],
  ['layer 0 o', 64 * 64 * 2 + 10 * (64 + 64 + 64) * 4],
  ['layer 0 gate up', 64 * 384 * 2 + 10 * (64 + 384) * 4],
  ['layer 0 down', 192 * 64 * 2 + 10 * (192 + 64 + 64) * 4],
  // q, k and v read; q written in f32, k and v in f16.
  ['layer 0 rope', 10 * 128 * 4 + 10 * 64 * 4 + 10 * 64 * 2],
  ['layer 0 swiglu', 10 * (384 + 192) * 4],
  // K and V of 10 keys, q in and rows out.
  ['layer 0 attention', 10 * 2 * 32 * 2 + 10 * 2 * 64 * 4],
  ['lm head', 64 * 512 * 2 + 1 * (64 + 512) * 4],
])('the cost of %s is %i bytes read and written', (label, bytes) => {
  expect(bytesOf(label)).toBe(bytes);
});

it('with output norms, the norm reads the residual and the product does not', () => {
  const normed = { ...nano, outputNorms: true };
  expect(bytesOf('layer 0 o', normed)).toBe(64 * 64 * 2 + 10 * (64 + 64) * 4);
  expect(bytesOf('layer 0 o norm', normed)).toBe(10 * 64 * 4 * 3);
});
