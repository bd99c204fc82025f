/** Kernel timing by the device's clock: every dispatch is timed, and results do not change. */
import { afterEach, expect, it } from 'vitest';
import type { RawSpan } from '../../src/measure/spans/spans.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { createHarness, type Harness, request, tokens } from './runner-harness.ts';

let h: Harness;
afterEach(() => h.close());

const nano = presetArchitecture('nano');
const blocks = [1, 2, 3, 4];

it('kernel timing covers every dispatch of a step, with its work, and leaves the logits unchanged', async () => {
  const weights = new SeededWeights(nano, 3, 'f16');
  h = await createHarness(weights);
  const ids = tokens(40, 512);
  const step = () => h.runner.execute({ step: 0, requests: [request('a', ids, 0, 40, blocks)] });
  const [plain] = await step();
  expect(h.runner.takeKernelTimes().totals).toEqual([]);
  expect(h.runner.setTiming('kernels')).toBe(true);
  const [timed] = await step();
  expect(timed!.logitsDigest).toBe(plain!.logitsDigest);

  const { totals, smallestStepNs } = h.runner.takeKernelTimes();
  const kernels = new Set(totals.map(({ kernel }) => kernel));
  for (const name of [
    'embedding',
    'qkv',
    'rope',
    'attention',
    'o',
    'gate up',
    'swiglu',
    'down',
    'lm head',
    'sample',
  ])
    expect(kernels).toContain(name);
  // 2 layers of 9 kernels, and 4 outside the layers.
  expect(totals.reduce((sum, { calls }) => sum + calls, 0)).toBe(22);
  expect(totals.filter(({ layer }) => layer === 1).length).toBe(9);
  for (const { ns, bytes } of totals) {
    expect(ns).toBeGreaterThanOrEqual(0);
    expect(bytes).toBeGreaterThan(0);
  }
  expect(totals.reduce((sum, { ns }) => sum + ns, 0)).toBeGreaterThan(0);
  expect(smallestStepNs).toBeGreaterThan(0);
  // hidden 64, q 64 and k, v 32 each: 40 rows.
  expect(totals.find(({ kernel }) => kernel === 'qkv')?.flops).toBe(2 * 40 * 64 * 128);
  // Causal: 40 * 41 / 2 pairs of 2 heads of 32.
  expect(totals.find(({ kernel }) => kernel === 'attention')?.flops).toBe(4 * 64 * 820);

  expect(h.runner.setTiming(null)).toBe(true);
  await step();
  expect(h.runner.takeKernelTimes().totals).toEqual([]);
  expect(h.runner.firstUseCompilations()).toBe(0);
});

it('submit timing gives device spans that lie within the host’s spans of the same submits', async () => {
  const spans: RawSpan[] = [];
  h = await createHarness(new SeededWeights(nano, 3, 'f16'), {
    onSpan: (span) => spans.push(span),
    engineId: 'e',
  });
  h.runner.setTiming('submits');
  const ids = tokens(40, 512);
  for (let i = 0; i < 3; i++)
    await h.runner.execute({ step: i, requests: [request('a', ids, 0, 40, blocks)] });
  const onDevice = spans.filter(({ name }) => name === 'kernels');
  const onHost = spans.filter(({ name }) => name === 'forward');
  expect(onDevice.length).toBeGreaterThanOrEqual(3);
  for (const span of onDevice) expect(span).toMatchObject({ engineId: 'e', lane: 'gpu', clock: 'gpu' });
  for (const span of onHost) expect(span).toMatchObject({ engineId: 'e', lane: 'host' });
  const within = onHost.at(-1)!;
  const last = onDevice.at(-1)!;
  const slack = Number(last.args.aligned_within_ms) + 0.1;
  expect(last.startMs).toBeGreaterThanOrEqual(within.startMs - slack);
  expect(last.endMs).toBeLessThanOrEqual(within.endMs + slack);
});
