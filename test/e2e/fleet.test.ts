import { describe, expect, it } from 'vitest';
import { MODES } from '../../src/config/modes.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { type Answer, converse, fingerprint, generate, withCluster } from './cluster-fixture.ts';

const pool = (count: number, enablePrefixCaching: boolean) => ({
  count,
  numBlocks: 96,
  enablePrefixCaching,
});
const fleet = (prefill: number, decode: number, caching = false): Partial<ClusterOptions> => ({
  prefill: pool(prefill, caching),
  decode: pool(decode, true),
});

/** Who served each turn: engines of its requests, in order. */
function watch(cluster: EngineCluster) {
  const sides: { turnId: string; side: string; engineId: string }[] = [];
  cluster.onNotice((notice) => {
    if (notice.kind === 'request') sides.push(notice);
  });
  return sides;
}

const ids = ['a', 'b', 'c'];
const talk = async (cluster: EngineCluster, temperature = 0): Promise<Answer[]> =>
  (await Promise.all(ids.map((id, i) => converse(cluster, id, 4, { seed: i + 1, temperature })))).flat();

describe('two P and two D', () => {
  for (const temperature of [0, 1]) {
    it(`give the tokens and logits of one engine alone in every mode (temperature ${temperature})`, async () => {
      const alone = await withCluster({ mode: 'monolithic' }, (cluster) => talk(cluster, temperature));
      await withCluster(fleet(2, 2), async (cluster) => {
        for (const mode of MODES) {
          await cluster.setMode(mode);
          const sides = watch(cluster);
          expect(fingerprint(await talk(cluster, temperature)), mode).toEqual(fingerprint(alone));
          const used = new Set(sides.map(({ engineId }) => engineId));
          expect([...used].sort(), mode).toEqual(
            mode === 'monolithic'
              ? ['decode-0', 'decode-1']
              : ['decode-0', 'decode-1', 'prefill-0', 'prefill-1'],
          );
        }
      });
    });
  }

  it('pull from whichever D has the last turn, though another serves this one, and send nothing that is there already', async () => {
    await withCluster(fleet(2, 3, true), async (cluster) => {
      const sides = watch(cluster);
      const answers = await converse(cluster, 'c', 6);
      const { blockBytes } = cluster.info.model;
      const served = answers.map((_, i) => sides.slice(2 * i, 2 * i + 2).map(({ engineId }) => engineId));
      expect(served).toEqual([
        ['prefill-0', 'decode-0'],
        ['prefill-1', 'decode-1'],
        ['prefill-0', 'decode-2'],
        ['prefill-1', 'decode-0'],
        ['prefill-0', 'decode-1'],
        ['prefill-1', 'decode-2'],
      ]);
      // Tokens that each engine has of the conversation, in whole blocks of what it was last given.
      const whole = (tokens: number) => tokens - (tokens % 16);
      const has = new Map<string, number>();
      for (const [turn, { result }] of answers.entries()) {
        const [p, d] = served[turn] as [string, string];
        const prompt = result.promptTokenIds.length;
        const held = turn === 0 ? 0 : prompt - 21 - 1;
        const hit = whole(has.get(p) ?? 0);
        expect(result.prompt).toMatchObject({
          localHitTokens: hit,
          pulledTokens: held - hit,
          computedTokens: prompt - held,
        });
        const blocks = (from: number, to: number) => Math.ceil(to / 16) - from / 16;
        if (turn > 0) expect(result.transfer.dToP?.bytes).toBe(blocks(hit, held) * blockBytes);
        const decodeHit = whole(has.get(d) ?? 0);
        expect(result.transfer.pToD?.bytes).toBe(blocks(decodeHit, prompt) * blockBytes);
        has.set(p, prompt);
        has.set(d, prompt + 11);
      }
      const alone = await withCluster({ mode: 'monolithic' }, (cluster) => converse(cluster, 'c', 6));
      expect(fingerprint(answers)).toEqual(fingerprint(alone));
    });
  });

  it('go on with equal tokens when one of them ends in the middle, and it is replaced', async () => {
    const alone = fingerprint(await withCluster({ mode: 'monolithic' }, (cluster) => talk(cluster)));
    for (const handover of ['pull', 'streamed'] as const) {
      for (const victim of ['prefill-1', 'decode-1']) {
        await withCluster({ ...fleet(2, 2), handover }, async (cluster) => {
          const dying = cluster.engines.find(({ engineId }) => engineId === victim)!;
          const histories = new Map<string, number[]>();
          const seen = new Map<string, string[]>(ids.map((id) => [id, []]));
          for (let turn = 0; turn < 4; turn++) {
            const turns = ids.map(async (conversationId, i) => {
              const fresh = Array.from(
                { length: 21 },
                (_, k) => 10 + (((i + 1) * 7919 + turn * 104_729 + k * 31) % 400),
              );
              const promptTokenIds = [...(histories.get(conversationId) ?? []), ...fresh];
              const sampling = { maxTokens: 12, temperature: 0, seed: i + 1, ignoreEos: true };
              const answer = await generate(cluster, {
                conversationId,
                promptTokenIds,
                sampling,
                failover: true,
              });
              histories.set(conversationId, [...promptTokenIds, ...answer.result.outputTokenIds]);
              seen.get(conversationId)!.push(...fingerprint([answer]));
            });
            if (turn === 1) await dying.lab.loseDevice().catch(() => {});
            await Promise.all(turns);
            if (turn !== 2) continue;
            // Its thread is gone.
            await dying.shutdown();
            expect(await cluster.revive()).toBe(1);
          }
          expect(
            ids.flatMap((id) => seen.get(id)!),
            `${victim}, ${handover}`,
          ).toEqual(alone);
          expect(cluster.info.engines.map(({ engineId }) => engineId)).toContain(`${victim}.2`);
        });
      }
    }
  });
});
