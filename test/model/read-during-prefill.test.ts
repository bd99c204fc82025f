/** A peer's READ of one block during a long prefill waits only for the submit in flight. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { GpuKvMemory } from '../../src/gpu/kv-memory.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { ModelRunner } from '../../src/model/runner.ts';
import { kvBlockBytes } from '../../src/model/types.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openTestDevice, readShader } from '../gpu/adapter.ts';
import { request, tokens } from './runner-harness.ts';

const PROMPT = 1024;
const blockSize = 16;
const numBlocks = PROMPT / blockSize + 2;

let gpu: GpuDevice;
let kv: GpuKvMemory;
let runner: ModelRunner;

beforeAll(async () => {
  const architecture = presetArchitecture('nano');
  const blockBytes = kvBlockBytes(architecture, blockSize, 'f16');
  gpu = await openTestDevice(blockBytes * numBlocks);
  kv = new GpuKvMemory({ gpu, numBlocks, blockBytes, kvDtype: 'f16', clock: systemClock });
  runner = await ModelRunner.create({
    gpu,
    readShader,
    weights: new SeededWeights(architecture, 1, 'f16'),
    kv,
    limits: { maxNumBatchedTokens: PROMPT, maxNumSeqs: 4, maxModelLen: PROMPT + 1, blockSize },
    kvDtype: 'f16',
    keepLogits: false,
    kernels: 'prompts',
    // Shorter than any dispatch, so that every adapter makes many submits.
    maxSubmitMs: 0.001,
    clock: systemClock,
  });
  await runner.warmUp();
});

afterAll(() => {
  runner.destroy();
  kv.destroy();
  gpu.destroy();
});

it('a READ waits for at most one submit of a 1,024-token prefill', async () => {
  const ids = tokens(PROMPT, 512);
  const blocks = Array.from({ length: PROMPT / blockSize }, (_, i) => i + 1);
  const prefill = () => runner.execute({ step: 0, requests: [request('a', ids, 0, PROMPT, blocks)] });
  // The first prefill teaches the runner how long its work takes, so the next one is split realistically.
  await prefill();

  let begun = 0;
  let ended = 0;
  let unfinished: number | null = null;
  let endedWhileReading: number | null = null;
  const { queue } = gpu.device;
  const { run } = gpu;
  const { submit } = queue;
  const read = async () => {
    const before = ended;
    // The device works in queue order: the copy waits for what was submitted before it, and for nothing else.
    queue.submit = (commands) => {
      queue.submit = submit;
      unfinished = begun - ended;
      return submit.call(queue, commands);
    };
    const gathered = await kv.gather(0, [numBlocks - 1]);
    endedWhileReading = ended - before;
    gathered.release();
  };
  let reading: Promise<void> | undefined;
  gpu.run = (commands, options) => {
    begun++;
    const done = run.call(gpu, commands, options);
    if (begun === 3) reading = read();
    return done.finally(() => {
      ended++;
    });
  };
  await prefill();
  gpu.run = run;
  await reading;
  expect(begun).toBeGreaterThan(4);
  expect(unfinished).toBe(1);
  // The host may hear of the copy's end together with the end of the submit after it.
  expect(endedWhileReading).toBeLessThanOrEqual(2);
});
