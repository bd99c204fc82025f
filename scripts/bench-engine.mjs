/**
 * One engine's speed on one adapter: start, prefill of 1,024 tokens, decode of one and of four sequences. Medians of a few
 * runs. Usage, after `npm run build:node`: node scripts/bench-engine.mjs [--adapter NAME] [--model PRESET] [--tokens N]
 */
import { parseArgs } from 'node:util';
import { GpuDevice } from '../dist/src/gpu/device.js';
import { GpuKvMemory } from '../dist/src/gpu/kv-memory.js';
import { presetArchitecture } from '../dist/src/model/presets.js';
import { ModelRunner } from '../dist/src/model/runner.js';
import { SeededWeights } from '../dist/src/model/seeded-weights.js';
import { kvBlockBytes } from '../dist/src/model/types.js';
import { systemClock } from '../dist/src/platform/clock.js';
import { nodePlatform, useAdapter } from '../dist/src/platform/node.js';

const { values } = parseArgs({
  options: {
    adapter: { type: 'string', default: 'auto' },
    model: { type: 'string', default: 'tiny' },
    tokens: { type: 'string', default: '1024' },
  },
});
const count = Number(values.tokens);
const blockSize = 16;
const maxModelLen = 4096;
const adapter = await useAdapter(values.adapter);
const architecture = presetArchitecture(values.model);

const begun = performance.now();
const blockBytes = kvBlockBytes(architecture, blockSize, 'f16');
const blocksEach = Math.ceil((count + 64) / blockSize);
const numBlocks = 1 + 5 * blocksEach;
const gpu = await GpuDevice.open(await nodePlatform.createGpu(), { bufferBytes: numBlocks * blockBytes });
const kv = new GpuKvMemory({ gpu, numBlocks, blockBytes, kvDtype: 'f16', clock: systemClock });
const spans = [];
const runner = await ModelRunner.create({
  gpu,
  readShader: nodePlatform.readShader,
  weights: new SeededWeights(architecture, 1, 'f16'),
  kv,
  limits: { maxNumBatchedTokens: Math.max(count, 64), maxNumSeqs: 8, maxModelLen, blockSize },
  kvDtype: 'f16',
  keepLogits: false,
  maxSubmitMs: 30,
  clock: systemClock,
  onSpan: (span) => spans.push(span),
});
const { compileMs } = await runner.warmUp();
const startMs = performance.now() - begun;

const params = {
  maxTokens: 1,
  minTokens: 0,
  temperature: 0,
  topK: 0,
  topP: 1,
  seed: 0,
  stopTokenIds: [],
  ignoreEos: true,
};
const sample = { params, outputIndex: 0, forbiddenTokenIds: [] };
const ids = Array.from({ length: count + 64 }, (_, i) => (i * 7919 + 13) % architecture.vocabSize);
const table = (sequence) => Array.from({ length: blocksEach }, (_, i) => 1 + sequence * blocksEach + i);
const request = (sequence, start, end) => ({
  requestId: `s${sequence}`,
  tokenIds: ids.slice(start, end),
  startPosition: start,
  blockIds: [table(sequence)],
  sample,
});

async function timed(requests) {
  spans.length = 0;
  const start = performance.now();
  await runner.execute({ step: 0, requests });
  return performance.now() - start;
}
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

const prefill = [];
for (let i = 0; i < 5; i++) prefill.push(await timed([request(i, 0, count)]));
const submits = spans.reduce((sum, { args }) => sum + args.submits, 0);
const decode = { 1: [], 4: [] };
for (const sequences of [1, 4]) {
  for (let i = 0; i < 32; i++) {
    decode[sequences].push(
      await timed(Array.from({ length: sequences }, (_, s) => request(s, count + i, count + i + 1))),
    );
  }
}
console.log(`${values.model} on ${adapter.description}`);
console.log(
  `start            ${startMs.toFixed(0)} ms, ${compileMs.toFixed(0)} ms of it pipelines (warm if the driver had them cached)`,
);
console.log(
  `prefill ${count}     ${median(prefill).toFixed(0)} ms (best ${Math.min(...prefill).toFixed(0)}), in ${submits} submits`,
);
for (const [sequences, times] of Object.entries(decode)) {
  console.log(
    `decode, ${sequences} beside  ${median(times).toFixed(1)} ms a step (best ${Math.min(...times).toFixed(1)})`,
  );
}
console.log(`pipelines first used after warm-up: ${runner.firstUseCompilations()}`);
runner.destroy();
kv.destroy();
gpu.destroy();
process.exit(0);
