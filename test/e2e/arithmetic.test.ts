/** f16 matrix products: P and D give the results of a single engine, which differ from those in f32. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Mode } from '../../src/config/modes.ts';
import { ConfigError } from '../../src/errors.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { useAdapter } from '../../src/platform/node.ts';
import { TEST_ADAPTER } from '../adapter.ts';
import { converse, fingerprint, startCluster, withCluster } from './cluster-fixture.ts';

let f16: boolean;
beforeAll(async () => {
  const { features } = await useAdapter(TEST_ADAPTER);
  f16 = features.includes('shader-f16');
});

const modes: Mode[] = ['monolithic', 'unidirectional', 'bidirectional'];

describe('f16 matrix products', () => {
  it.for([
    ['nano', { weightDtype: 'f16', kvDtype: 'f16' }],
    ['nano', { weightDtype: 'f32', kvDtype: 'f32' }],
    ['recall', { weightDtype: 'f16', kvDtype: 'f16' }],
  ] as const)(
    'give bit-identical tokens and logits in all three modes: %s, %o',
    async ([model, dtypes], { skip }) => {
      if (!f16) skip('this adapter has no shader-f16');
      const options: Partial<ClusterOptions> = { ...dtypes, model, arithmetic: 'f16' };
      const seen = await withCluster(options, async (cluster) => {
        expect(cluster.info.adapter.arithmetic).toBe('f16');
        const all: string[][] = [];
        for (const mode of modes) {
          await cluster.setMode(mode);
          const answers = await converse(cluster, 'c', 4, { temperature: 1 });
          all.push(fingerprint(answers));
          const pulled = answers.map(({ result }) => result.prompt.pulledTokens);
          // D holds everything but its last token: prompt + output - 1.
          expect(pulled).toEqual(mode === 'bidirectional' ? [0, 21 + 11, 54 + 11, 87 + 11] : [0, 0, 0, 0]);
        }
        return all;
      });
      expect(seen[1]).toEqual(seen[0]);
      expect(seen[2]).toEqual(seen[0]);
      const inF32 = await withCluster({ ...options, arithmetic: 'f32' }, (cluster) =>
        converse(cluster, 'c', 1, { temperature: 1 }),
      );
      expect(fingerprint(inF32)[0]).not.toBe(seen[0]![0]);
    },
  );

  it('are refused when the adapter lacks shader-f16', async ({ skip }) => {
    if (f16) skip('this adapter has it');
    const refused = startCluster({ arithmetic: 'f16' });
    await expect(refused).rejects.toThrow(ConfigError);
    await expect(refused).rejects.toThrow(
      /^--arithmetic is f16, and .+ has no shader-f16: wanted f32 or auto/,
    );
  });

  it('are not used by --arithmetic auto without a measurement', async () => {
    await withCluster({ arithmetic: 'auto' }, async (cluster) => {
      expect(cluster.info.adapter.arithmetic).toBe('f32');
    });
  });
});
