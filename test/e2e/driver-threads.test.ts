/** In one process, P's driver with threads of its own and D's without: the same tokens and logits. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { isLavapipe } from '../../src/gpu/adapter-name.ts';
import { withCluster } from './cluster-fixture.ts';

const TASKS = '/proc/self/task';

/** The number of lavapipe's compute threads in this process; none but on Linux. */
const driverThreads = (): number =>
  !existsSync(TASKS)
    ? 0
    : readdirSync(TASKS).filter((task) =>
        readFileSync(`${TASKS}/${task}/comm`, 'utf8').startsWith('llvmpipe'),
      ).length;

async function converse(options: Partial<ClusterOptions>) {
  return withCluster(options, async (cluster) => {
    const tokens: string[] = [];
    let promptTokenIds: number[] = [];
    for (const turn of [0, 1, 2]) {
      promptTokenIds = [
        ...promptTokenIds,
        ...Array.from({ length: 70 }, (_, i) => 10 + ((turn * 97 + i * 31) % 400)),
      ];
      const sampling = { maxTokens: 6, ignoreEos: true };
      for await (const { tokenId, logitsDigest } of cluster.generate({
        conversationId: 'a',
        promptTokenIds,
        sampling,
      })) {
        tokens.push(`${tokenId}:${logitsDigest}`);
        promptTokenIds = [...promptTokenIds, tokenId];
      }
    }
    const { adapter, engines } = cluster.info;
    return {
      tokens,
      lavapipe: isLavapipe(adapter),
      threads: driverThreads(),
      told: engines.map((engine) => engine.driverThreads),
    };
  });
}

it('driver threads can be on for P and off for D in one process, with the same tokens', async () => {
  const alike = await converse({});
  const apart = await converse({ decodeDriverThreads: false });
  expect(alike.told).toEqual([true, true]);
  expect(apart.told).toEqual([true, !apart.lavapipe]);
  expect(apart.threads).toBe(apart.lavapipe ? alike.threads / 2 : 0);
  expect(apart.tokens).toEqual(alike.tokens);
  expect(process.env.LP_NUM_THREADS).toBeUndefined();
});
