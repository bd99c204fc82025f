/** What measuring costs refuses before it asks anything of an engine. */
import { expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import type { Cluster } from '../../src/fleet/types.ts';
import { CostMeter } from '../../src/simulate/costs/measure.ts';

const meterOf = (numBlocks: number) => {
  const settings = {
    maxModelLen: 1024,
    blockSize: 16,
    maxNumSeqs: 8,
    prefill: { numBlocks },
    decode: { numBlocks },
  };
  const cluster = { settings, engines: [], info: { model: { vocabSize: 512 } } };
  return () =>
    new CostMeter(cluster as unknown as Cluster, { seed: 1, signal: new AbortController().signal });
};

it('engines without room for the shortest answer: what there is, what is wanted, what to raise', () => {
  expect(meterOf(4)).toThrow(ConfigError);
  expect(meterOf(4)).toThrow(/room for 48 tokens .* more than 56: raise --max-model-len \(1024\)/);
  expect(meterOf(5)).not.toThrow();
});
