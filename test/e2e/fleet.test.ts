import { describe, expect, it } from 'vitest';
import { MODES } from '../../src/config/modes.ts';
import { parseRunConfig } from '../../src/config/run.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
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

/** Records which engines served each turn's requests, in order. */
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

  it('pull from the D that holds the last turn, and send the D of this turn only blocks it lacks', async () => {
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
      // Tokens of the conversation that each engine was last given; whole blocks of them are cached.
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

  it('give the same tokens when one of them dies during a turn and is replaced', async () => {
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
            // Ends its thread.
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

describe('a fleet of rolesets', () => {
  const from = (fleet: object, settings: object = {}) => {
    const config = parseRunConfig({ model: 'nano', fleet, ...settings });
    const { fleet: seats, placement } = clusterOptions(config, presetArchitecture('nano'), true);
    return { fleet: seats!, placement: placement! };
  };

  it('with placement replica keeps each turn in the roleset for its prompt length', async () => {
    const rolesets = [
      { name: 'short', prefill: [{ blocks: 64 }], decode: 2, promptTokens: { max: 60 } },
      { name: 'long', both: 2, promptTokens: { min: 61 } },
    ];
    const alone = await withCluster({ mode: 'monolithic' }, (cluster) => talk(cluster));
    await withCluster(from({ rolesets }, { modeOfFleet: 'replica' }), async (cluster) => {
      expect(cluster.info.engines.map(({ engineId, numBlocks }) => [engineId, numBlocks])).toEqual([
        ['prefill-0', 64],
        ['decode-0', 128],
        ['decode-1', 128],
        ['both-0', 128],
        ['both-1', 128],
      ]);
      const sides = watch(cluster);
      const answers = await talk(cluster);
      expect(fingerprint(answers)).toEqual(fingerprint(alone));
      // The prompts of each conversation have 21, 54, 87 and 120 tokens.
      const count = (name: RegExp) => sides.filter(({ engineId }) => name.test(engineId)).length;
      expect([count(/^prefill/), count(/^decode/), count(/^both/)]).toEqual([6, 6, 6]);
    });
  });

  it('applies a link only to the pair of engines it is configured for', async () => {
    const fleet = {
      rolesets: [{ prefill: 1, decode: 2 }],
      links: [{ between: ['prefill-0', 'decode-1'], link: '1e6,40ms' }],
    };
    await withCluster(from(fleet), async (cluster) => {
      const answers = await converse(cluster, 'c', 3);
      const linkMs = answers.map(({ result }) => [
        result.transfer.dToP?.stages.linkMs ?? null,
        result.transfer.pToD!.stages.linkMs,
      ]);
      // Turns go to decode-0, decode-1, decode-0; each pull comes over the link of the previous turn's D.
      expect(linkMs[0]).toEqual([null, 0]);
      expect(linkMs[1]![0]).toBe(0);
      expect(linkMs[1]![1]).toBeGreaterThan(40);
      expect(linkMs[2]![0]).toBeGreaterThan(40);
      expect(linkMs[2]![1]).toBe(0);
    });
  });
});
