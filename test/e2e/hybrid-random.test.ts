/**
 * Models of one, two and three KV cache groups, with random window and block sizes, in pools too small for the
 * concurrent load: every mode, both handovers and a store give the same bits as one engine with a large enough pool.
 */
import { expect, it } from 'vitest';
import { mostBlocksInAll } from '../../src/engine/kv-cache-spec.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { pathChoice } from '../../src/lab/multiturn/paths.ts';
import { kvCacheSpecs } from '../../src/model/architecture/kv-groups.ts';
import { Random } from '../../src/workload/random.ts';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';
import { hybridFolder, IDS } from './hybrid-folder.ts';

const TURNS = 3;
const turn = { newTokens: 40, outputTokens: 30, ids: IDS };
const longest = TURNS * (turn.newTokens + turn.outputTokens);
const maxNumBatchedTokens = 40;
const maxModelLen = 256;

it.each([
  [1, 'SSS'],
  [2, 'SF'],
  [3, 'SFS'],
] as const)(
  'a model of %i KV cache groups (%s) gives the same bits in small pools on every path',
  async (numGroups, layers) => {
    const random = new Random(31 * numGroups);
    const blockSize = 2 ** random.int(2, 4);
    const model = await hybridFolder(
      [...layers].map((kind) => kind === 'F'),
      random.int(2, 60),
    );
    try {
      const groups = kvCacheSpecs(model.architecture);
      expect(groups).toHaveLength(numGroups);
      const scheduler = { maxNumBatchedTokens, maxModelLen };
      // The last prompts of two conversations fit, but not their answers.
      const prompt = longest - turn.outputTokens;
      const small = 2 * mostBlocksInAll(prompt, { cache: { blockSize, groups }, scheduler }) + 2;
      const roomy = 3 * numGroups * (Math.ceil(longest / blockSize) + 2);
      const options: Partial<ClusterOptions> = {
        ...{ model: model.path, kvCacheGroups: groups, blockSize, ...scheduler },
        prefill: { numBlocks: roomy, enablePrefixCaching: true },
        decode: { numBlocks: roomy, enablePrefixCaching: true },
        mode: 'monolithic',
        store: { bytes: 2 ** 22, eviction: 's3fifo' },
      };
      await withCluster(options, async (cluster) => {
        const serve = async (together: boolean): Promise<string[][]> => {
          const of = (id: string, seed: number) =>
            converse(cluster, id, TURNS, { ...turn, seed, temperature: 1 });
          const answers = together
            ? await Promise.all(['a', 'b', 'c'].map(of))
            : [await of('a', 0), await of('b', 1), await of('c', 2)];
          return answers.map(fingerprint);
        };
        const alone = await serve(false);
        for (const mode of ['monolithic', 'bidirectional'] as const)
          for (const handover of ['pull', 'streamed'] as const) {
            if (mode === 'monolithic' && handover === 'streamed') continue;
            await cluster.configure({ mode, handover, prefillBlocks: small, decodeBlocks: small });
            expect([mode, handover, await serve(true)]).toEqual([mode, handover, alone]);
            await cluster.checkIntegrity();
          }
        for (const name of ['store', 'both'] as const) {
          const { mode, connector } = pathChoice(name, { offloadPromptOnly: false });
          await cluster.configure({ mode, connector, handover: 'pull' });
          expect([name, await serve(true)]).toEqual([name, alone]);
          await cluster.checkIntegrity();
        }
      });
    } finally {
      await model.remove();
    }
  },
);
