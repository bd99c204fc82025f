import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { SamplingParams } from '../../src/engine/types.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { packUniform } from '../../src/gpu/uniforms.ts';
import { sampleOnHost } from '../../src/model/pass/sample-on-host.ts';
import { packSamples, type SampleRequest, uniformDraw } from '../../src/model/pass/sampling.ts';
import { openTestDevice } from './adapter.ts';
import { randomValues } from './reference.ts';
import { runKernel } from './run-kernel.ts';

let gpu: GpuDevice;
beforeAll(async () => {
  gpu = await openTestDevice();
});
afterAll(() => gpu.destroy());

const base: SamplingParams = { ...DEFAULT_SAMPLING, maxTokens: 1 };

const sampleOf = (
  params: Partial<SamplingParams>,
  outputIndex = 0,
  forbiddenTokenIds: readonly number[] = [],
): SampleRequest => ({ params: { ...base, ...params }, outputIndex, forbiddenTokenIds });

async function sample(logits: readonly Float32Array[], requests: readonly SampleRequest[]) {
  const vocab = logits[0]!.length;
  const stride = (vocab + 3) & ~3;
  const all = new Float32Array(stride * logits.length).fill(1000);
  logits.forEach((row, i) => {
    all.set(row, i * stride);
  });
  const { rows, forbidden } = packSamples(requests);
  const [out] = await runKernel(
    gpu,
    'sample',
    { WORKGROUP: 64 },
    [all, rows, forbidden, new Uint32Array(4 * logits.length), packUniform('sample', { vocab, stride })],
    [logits.length, 1],
  );
  const words = new Uint32Array(out!);
  return logits.map((_, i) => ({ token: words[4 * i]!, digest: `${words[4 * i + 1]} ${words[4 * i + 2]}` }));
}

/** The expected token in float64; null if the draw is too close to a boundary to tell. */
function expectedToken(
  logits: Float32Array,
  { params, outputIndex, forbiddenTokenIds }: SampleRequest,
): number | null {
  let kept = [...logits.keys()].filter((id) => !forbiddenTokenIds.includes(id));
  const byLogit = [...kept].sort((a, b) => logits[b]! - logits[a]! || a - b);
  if (params.temperature === 0) return byLogit[0]!;
  const weight = (id: number) => Math.exp((logits[id]! - logits[byLogit[0]!]!) / params.temperature);
  if (params.topK > 0) {
    const least = logits[byLogit[Math.min(params.topK, byLogit.length) - 1]!]!;
    kept = kept.filter((id) => logits[id]! >= least);
  }
  if (params.topP < 1) {
    const inOrder = byLogit.filter((id) => kept.includes(id));
    const wanted = params.topP * inOrder.reduce((sum, id) => sum + weight(id), 0);
    let sum = 0;
    let least = 0;
    for (const id of inOrder) {
      sum += weight(id);
      least = logits[id]!;
      if (sum >= wanted) break;
    }
    if (Math.abs(sum - wanted) < 1e-4) return null;
    kept = kept.filter((id) => logits[id]! >= least);
  }
  const total = kept.reduce((sum, id) => sum + weight(id), 0);
  const target = uniformDraw(params.seed, outputIndex) * total;
  let sum = 0;
  for (const id of kept) {
    const before = sum;
    sum += weight(id);
    if (Math.abs(sum - target) < 1e-5 * total || Math.abs(before - target) < 1e-5 * total) return null;
    if (sum > target) return id;
  }
  return null;
}

describe('sampling', () => {
  it('without temperature takes the largest allowed logit, the lowest id on ties', async () => {
    const logits = randomValues(333, 9);
    logits[200] = 5;
    logits[77] = 5;
    logits[300] = 5;
    const negative = logits.map((x) => x - 100);
    const result = await sample(
      [logits, logits, negative],
      [sampleOf({}), sampleOf({}, 0, [3, 77, 4]), sampleOf({}, 0, [77, 200])],
    );
    expect(result.map(({ token }) => token)).toEqual([77, 200, 300]);
  });

  it('takes 0 and -0 for equal, as the host does', async () => {
    const logits = new Float32Array(100).fill(-1);
    logits[70] = 0;
    logits[9] = -0;
    const topK = Array.from({ length: 20 }, (_, i) => sampleOf({ temperature: 1, topK: 1, seed: 5 }, i));
    const result = await sample([logits, ...topK.map(() => logits)], [sampleOf({}), ...topK]);
    const [greedy, ...drawn] = result.map(({ token }) => token);
    expect(greedy).toBe(9);
    expect(drawn).toEqual(topK.map((request) => sampleOnHost(logits, request)));
    expect(new Set(drawn)).toEqual(new Set([9, 70]));
  });

  it.each([
    ['greedy', {}],
    ['temperature 1', { temperature: 1 }],
    ['top-k 1', { temperature: 1, topK: 1 }],
    ['top-p 0.1', { temperature: 1, topP: 0.1 }],
  ])('with %s never chooses NaN, and returns no token if all logits are NaN', async (_, params) => {
    const one = new Float32Array(100).fill(Number.NaN);
    one[9] = -3;
    one[70] = -50;
    const none = new Float32Array(100).fill(Number.NaN);
    const [some, nothing] = await sample([one, none], [sampleOf(params), sampleOf(params)]);
    expect(some!.token).toBe(9);
    expect(nothing!.token).toBe(2 ** 32 - 1);
  });

  it.each([
    ['temperature 1', { temperature: 1 }],
    ['temperature 0.3', { temperature: 0.3 }],
    ['top-k 5', { temperature: 1.5, topK: 5 }],
    ['top-k above the vocabulary', { temperature: 1, topK: 5000 }],
    ['top-k above 32 bits', { temperature: 1, topK: 2 ** 32 + 1 }],
    ['top-p 0.6', { temperature: 1, topP: 0.6 }],
    ['top-k 20 and top-p 0.9', { temperature: 1, topK: 20, topP: 0.9 }],
  ])('with %s chooses the token of float64', async (_, params) => {
    const rows = Array.from({ length: 40 }, (_, i) => randomValues(417, i + 1).map((x) => 4 * x));
    const requests = rows.map((_, i) =>
      sampleOf({ ...params, seed: 12345678901 }, i, i % 2 ? [i, i + 1] : []),
    );
    const result = await sample(rows, requests);
    const expected = rows.map((row, i) => expectedToken(row, requests[i]!));
    const decided = expected.map((id, i) => (id === null ? result[i]!.token : id));
    expect(expected.filter((id) => id === null).length).toBeLessThan(4);
    expect(result.map(({ token }) => token)).toEqual(decided);
  });

  it('follows the distribution', async () => {
    const logits = Float32Array.from([Math.log(0.5), Math.log(0.3), Math.log(0.2), -1e30, -1e30]);
    const counts = [0, 0, 0, 0, 0];
    for (let from = 0; from < 2000; from += 500) {
      const requests = Array.from({ length: 500 }, (_, i) => sampleOf({ temperature: 1, seed: 3 }, from + i));
      for (const { token } of await sample(
        requests.map(() => logits),
        requests,
      ))
        counts[token]! += 1;
    }
    const expected = [1000, 600, 400, 0, 0];
    counts.forEach((count, i) => {
      expect(Math.abs(count - expected[i]!)).toBeLessThan(100);
    });
  });

  it('gives equal rows equal digests, and others if one bit or the order differs', async () => {
    const row = randomValues(130, 3);
    const flipped = row.slice();
    new Uint32Array(flipped.buffer)[129]! ^= 1;
    const swapped = row.slice();
    [swapped[5], swapped[6]] = [row[6]!, row[5]!];
    const requests = [sampleOf({}), sampleOf({ temperature: 1 }), sampleOf({}), sampleOf({})];
    const [a, same, b, c] = await sample([row, row, flipped, swapped], requests);
    expect(same!.digest).toBe(a!.digest);
    expect(new Set([a!.digest, b!.digest, c!.digest]).size).toBe(3);
  });
});
