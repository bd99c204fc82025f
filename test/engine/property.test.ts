import fc from 'fast-check';
import { expect, it } from 'vitest';
import { mostBlocksInAll } from '../../src/engine/kv-cache-spec.ts';
import { engineConfig, request, type Sizes, someGroups, TestEngine, tokens } from './fakes.ts';

/** Few seeds and short lengths, so that prompts share prefixes. */
const arrival = fc.record({
  atStep: fc.nat(30),
  promptSeed: fc.nat(2),
  promptLength: fc.integer({ min: 1, max: 24 }),
  maxTokens: fc.integer({ min: 1, max: 12 }),
  ignoreEos: fc.boolean(),
  salt: fc.constantFrom(null, null, 'salt'),
  abort: fc.option(fc.record({ atStep: fc.nat(40), duringBatch: fc.boolean() })),
});

const sizes = fc.record({
  blockSize: fc.constantFrom(1, 2, 4, 5),
  spareBlocks: fc.nat(12),
  maxNumBatchedTokens: fc.integer({ min: 1, max: 40 }),
  maxNumSeqs: fc.integer({ min: 1, max: 5 }),
  prefixCaching: fc.boolean(),
  groups: someGroups,
});

type Arrival = typeof arrival extends fc.Arbitrary<infer T> ? T : never;

const toRequest = ({ promptSeed, promptLength, maxTokens, ignoreEos, salt }: Arrival, i: number) =>
  request(
    `r${i}`,
    tokens(promptLength, promptSeed),
    { maxTokens, ignoreEos, seed: promptSeed },
    { cacheSalt: salt },
  );

async function alone(arrivals: readonly Arrival[]): Promise<number[][]> {
  return Promise.all(
    arrivals.map(async (arrival, i) => {
      const engine = new TestEngine(engineConfig());
      engine.add(toRequest(arrival, i));
      await engine.settle();
      return engine.tokensOf(`r${i}`);
    }),
  );
}

class DeviceLost extends Error {}

/**
 * KvModel throws if a position that a row may see holds anything but that request's own KV. diesAtBatch: the batch, counted
 * from 1, during which the device is lost; it returns no tokens.
 */
async function crowded(
  arrivals: readonly Arrival[],
  limits: Sizes,
  diesAtBatch: number | null,
): Promise<{ engine: TestEngine; died: boolean }> {
  const engine = new TestEngine(engineConfig(limits));
  const due = (step: number, duringBatch: boolean) =>
    arrivals.flatMap(({ abort }, i) =>
      abort?.atStep === step && abort.duringBatch === duringBatch ? [`r${i}`] : [],
    );
  for (let step = 0; step <= 40 || engine.core.poll(); step++) {
    arrivals.forEach((arrival, i) => {
      if (arrival.atStep === step) engine.add(toRequest(arrival, i));
    });
    for (const id of due(step, false)) engine.core.abortRequest(id);
    engine.model.duringBatch = () => {
      for (const id of due(step, true)) engine.core.abortRequest(id);
      if (engine.model.batches.length === diesAtBatch) throw new DeviceLost();
    };
    try {
      if (engine.core.poll()) await engine.step();
    } catch (error) {
      if (error instanceof DeviceLost) return { engine, died: true };
      throw error;
    }
    if (step > 20_000) throw new Error('the engine makes no progress');
  }
  return { engine, died: false };
}

it('random arrivals, aborts, preemptions, evictions and device losses never mix up or leak KV', async () => {
  let preemptions = 0;
  let hits = 0;
  let deaths = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(arrival, { minLength: 1, maxLength: 8 }),
      sizes,
      fc.oneof(
        { weight: 3, arbitrary: fc.constant(null) },
        { weight: 1, arbitrary: fc.integer({ min: 1, max: 40 }) },
      ),
      async (arrivals, { spareBlocks, ...rest }, diesAtBatch) => {
        const largest = Math.max(...arrivals.map((one) => one.promptLength + one.maxTokens - 1));
        const numBlocks = 1 + mostBlocksInAll(largest, engineConfig(rest)) + spareBlocks;
        const { engine, died } = await crowded(arrivals, { ...rest, numBlocks }, diesAtBatch);
        const reference = await alone(arrivals);
        if (died) {
          deaths++;
          // The tokens so far are right, the integrity checks pass, and another engine serves the unfinished requests.
          engine.core.inspect.checkIntegrity();
          arrivals.forEach((_, i) => {
            const own = engine.tokensOf(`r${i}`);
            expect(own).toEqual(reference[i]!.slice(0, own.length));
          });
          const left = arrivals.filter((_, i) => !engine.finishOf(`r${i}`));
          const next = await crowded(left, { ...rest, numBlocks }, null);
          expect(next.engine.core.inspect.stats().usedBlocks).toBe(0);
          return;
        }
        arrivals.forEach(({ abort }, i) => {
          const own = engine.tokensOf(`r${i}`);
          expect(own).toEqual(reference[i]!.slice(0, own.length));
          const end = engine.finishOf(`r${i}`);
          if (end && end.reason !== 'abort') expect(own).toEqual(reference[i]);
          if (!abort) expect(end?.reason).toMatch(/stop|length/);
          const account = engine.promptOf(`r${i}`);
          if (account) {
            expect(account.localHitTokens + account.computedTokens).toBe(account.promptTokens);
            expect(account.computedTokens).toBeGreaterThan(0);
          }
        });
        preemptions += engine.core.inspect.stats().preemptions;
        hits += engine.core.inspect.stats().prefixCache.hits;
        expect(engine.core.hasWork()).toBe(false);
        expect(engine.core.inspect.stats().usedBlocks).toBe(0);
        expect(engine.core.resetPrefixCache()).toBe(true);
      },
    ),
    // A fixed seed, so that reaching the counts below does not depend on luck.
    { numRuns: 400, seed: 20261122 },
  );
  // The runs must reach preemptions, hits and device losses.
  expect(preemptions).toBeGreaterThan(20);
  expect(hits).toBeGreaterThan(100);
  expect(deaths).toBeGreaterThan(20);
});
