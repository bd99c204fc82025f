/** A streamed handover is faster than a pulled one, with every kind of READ costs. */
import { expect, it } from 'vitest';
import type { SimulationCosts } from '../../src/simulate/costs/types.ts';
import type { LinkSpec } from '../../src/transport/link.ts';
import { greedy, simulated, turn } from './simulated.ts';

const TOKENS = 512;
const stepMs: SimulationCosts['stepMs'] = ({ prefillTokens }) => 2 + 0.1 * prefillTokens;
const costsBy = (readMs: SimulationCosts['readMs'], readContentionMs = 0) => ({
  stepMs,
  readMs,
  readContentionMs,
});
const latency: LinkSpec = { name: 'far', bytesPerSecond: 5e7, latencyMs: 20 };

it.each<[string, Partial<SimulationCosts>, LinkSpec | null]>([
  ["time by the prompt's length", costsBy((_, tokens) => 0.05 * tokens), null],
  ['time by its bytes', costsBy((bytes) => bytes / 20_000), null],
  ['a fixed time', costsBy(() => 25), null],
  ['longer alongside steps', costsBy(() => 5, 20), null],
  ['place over a link with latency', costsBy(() => 0), latency],
])('a streamed handover is faster than a pulled one if a READ takes %s', async (_, costs, link) => {
  const ttftMs = async (handover: 'pull' | 'streamed'): Promise<number> => {
    // Eight steps of P, each a chunk.
    const options = { handover, link, maxNumBatchedTokens: TOKENS / 8 };
    const cluster = simulated({ options }, costs);
    const promptTokenIds = Array.from({ length: TOKENS }, (_, i) => 8 + (i % 400));
    const asked = { conversationId: 'a', promptTokenIds, sampling: greedy(4) };
    return (await cluster.run(turn(cluster, asked))).ttftMs;
  };
  expect(await ttftMs('streamed')).toBeLessThan(await ttftMs('pull'));
});
