import { describe, expect, it } from 'vitest';
import { Oracle } from '../../src/model/oracle.ts';
import { presetArchitecture } from '../../src/model/presets.ts';
import { SeededWeights } from '../../src/model/seeded-weights.ts';
import { createHarness, maxDifference, request, tokens } from './runner-harness.ts';

describe('ModelRunner against the oracle', () => {
  it.each([
    ['f32', 'f32', 2e-4],
    ['f16', 'f16', 2e-2],
  ] as const)(
    'nano, weights %s and KV %s: logits after a prompt and two more tokens',
    async (weightDtype, kvDtype, tolerance) => {
      const weights = new SeededWeights(presetArchitecture('nano'), 7, weightDtype);
      const h = await createHarness(weights, { kvDtype });
      const ids = tokens(53, 512);
      const oracle = await Oracle.load(weights, { kvDtype });
      const blocks = [9, 3, 4, 20];
      const [first] = await h.runner.execute({ step: 0, requests: [request('a', ids, 0, 51, blocks)] });
      expect(maxDifference(first!.logits!, oracle.forward(ids.slice(0, 51))[0]!)).toBeLessThan(tolerance);
      for (const at of [51, 52]) {
        const [next] = await h.runner.execute({
          step: at,
          requests: [request('a', ids, at, at + 1, blocks)],
        });
        expect(maxDifference(next!.logits!, oracle.forward([ids[at]!])[0]!)).toBeLessThan(tolerance);
      }
      expect(h.runner.firstUseCompilations()).toBe(0);
      h.close();
    },
  );
});
