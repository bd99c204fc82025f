/** A sliding-window model in a complete cluster: its KV cache groups on the device, handed over and pulled back. */
import { describe, expect, it } from 'vitest';
import type { PullPolicyName } from '../../src/config/kv-transfer.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { kvCacheSpecs } from '../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { converse, fingerprint, generate, withCluster } from './cluster-fixture.ts';

/** Five groups with a window of 128 tokens, then one with full attention; one layer each. */
const model = 'tiny-hybrid';
const pool = { numBlocks: 400, enablePrefixCaching: false };
const options: Partial<ClusterOptions> = {
  model,
  kvCacheGroups: kvCacheSpecs(presetArchitecture(model)),
  prefill: pool,
  decode: { ...pool, enablePrefixCaching: true },
};
/** 170 new tokens and 12 generated, per turn: the first turn is already longer than the windows. */
const long = { newTokens: 170, outputTokens: 12 };

describe('a sliding-window model', () => {
  it('gives the same bits by both handovers, with windowed KV and with full KV', async () => {
    await withCluster({ ...options, mode: 'monolithic' }, async (cluster) => {
      const alone = fingerprint(await converse(cluster, 'c', 3, long));
      const peaks: Record<string, number> = {};
      const moved: Record<string, number> = {};
      for (const handover of ['pull', 'streamed'] as const) {
        for (const allFullKv of [false, true]) {
          await cluster.configure({ mode: 'bidirectional', handover, allFullKv });
          const answers = await converse(cluster, 'c', 3, long);
          expect(fingerprint(answers)).toEqual(alone);
          // Everything D holds: prompt + output - 1.
          expect(answers.map(({ result }) => result.prompt.pulledTokens)).toEqual([0, 181, 363]);
          const key = allFullKv ? 'full' : 'windowed';
          peaks[key] = (await cluster.stats()).reduce((sum, { peakUsedBlocks }) => sum + peakUsedBlocks, 0);
          moved[key] = answers.reduce((sum, { result }) => sum + (result.transfer.dToP?.blocks ?? 0), 0);
        }
        // 181 tokens take 12 blocks, 363 take 23; a window keeps the blocks from token 54 at 181, and from 236 at 363.
        expect(moved).toEqual({ full: 6 * (12 + 23), windowed: 12 + 5 * 9 + 23 + 5 * 9 });
        expect(peaks.windowed).toBeLessThan(peaks.full! / 1.7);
      }
    });
  });

  it('serves a rewound turn again, pulled or computed, although its windows have moved on', async () => {
    await withCluster({ ...options, prefill: { ...pool, enablePrefixCaching: true } }, async (cluster) => {
      const [first] = await converse(cluster, 'c', 1, long);
      const { promptTokenIds: asked, outputTokenIds } = first!.result;
      const added = Array.from({ length: 150 }, (_, i) => 10 + i);
      const promptTokenIds = [...asked, ...outputTokenIds, ...added];
      const sampling = { maxTokens: 6, ignoreEos: true };
      const serve = (pull: PullPolicyName) =>
        generate(cluster, { conversationId: 'c', promptTokenIds, sampling, pull });
      const answers = [await serve('always')];
      for (const pull of ['always', 'never', 'always'] as const) {
        await cluster.rewind('c', 32);
        answers.push(await serve(pull));
      }
      expect(answers.map(({ result }) => result.turn)).toEqual([2, 2, 2, 2]);
      // P keeps no window block without the blocks before it, so the 32 tokens it keeps are a hit in all groups.
      const [, pulled, computed, again] = answers.map(({ result }) => result.prompt);
      expect(pulled).toMatchObject({ localHitTokens: 32, pulledTokens: 181 - 32 });
      expect(computed).toMatchObject({ localHitTokens: 32, pulledTokens: 0 });
      expect(again).toEqual(pulled);
      for (const answer of answers) expect(fingerprint([answer])).toEqual(fingerprint([answers[0]!]));
    });
  });

  it('reports the blocks and bytes it moved with layout layer-pieces', async () => {
    await withCluster({ ...options, layout: 'layer-pieces' }, async (cluster) => {
      const [, second] = await converse(cluster, 'c', 2, long);
      const { blocks, bytes } = second!.result.transfer.dToP!;
      expect(blocks).toBe(12 + 5 * 9);
      expect(bytes).toBe(blocks * cluster.info.model.blockBytes);
    });
  });

  it('moves exactly the bytes that routing predicts for its first turn', async () => {
    const nothing = { prefillFixedMs: 0, prefillMsPerToken: 0, prefillMsPerTokenContext: 0 };
    const rest = { moveFixedMs: 0, moveMsPerHolderRequest: 0, firstStepMs: 0, firstStepMsPerRequest: 0 };
    const parameters = { 'least-ttft': { moveMsPerByte: 1, ...nothing, ...rest } };
    await withCluster({ ...options, routing: { name: 'least-ttft', parameters } }, async (cluster) => {
      const [answer] = await converse(cluster, 'c', 1, long);
      const { routed, transfer } = answer!.result;
      const { bytes } = transfer.pToD!;
      expect(routed!.predictedTtftMs).toBeCloseTo(bytes, 3);
      expect(bytes).toBe((11 + 5 * 9) * cluster.info.model.blockBytes);
    });
  });

  it('is routed by what each engine could use of an edited history', async () => {
    const routing = { name: 'prefix-cache', parameters: {} };
    const cached = { ...pool, enablePrefixCaching: true };
    await withCluster({ ...options, prefill: cached, routing }, async (cluster) => {
      const [answer] = await converse(cluster, 'c', 1, { newTokens: 300, outputTokens: 2 });
      const promptTokenIds = [...answer!.result.promptTokenIds.slice(0, 200), 1, 2, 3];
      const { engines } = await cluster.queryCache({ promptTokenIds });
      const sampling = { maxTokens: 2, ignoreEos: true };
      const { routed, prompt } = (await generate(cluster, { conversationId: 'd', promptTokenIds, sampling }))
        .result;
      const known = routed!.candidates.map(({ engineId, cachedTokens }) => [engineId, cachedTokens]);
      expect(known).toEqual(engines.map(({ engineId, hitTokens }) => [engineId, hitTokens]));
      // D has all blocks of these tokens in the full group, but in the others only from token 160 on.
      expect(Object.fromEntries(known)).toEqual({ 'prefill-0': 192, 'decode-0': 0 });
      expect(prompt.localHitTokens).toBe(192);
    });
  });

  it('gives the same tokens when D is too small for all conversations', async () => {
    // Room for two: the third conversation takes blocks of the first ones.
    const small = { ...options, decode: { numBlocks: 180, enablePrefixCaching: true } };
    await withCluster(small, async (cluster) => {
      const seen: string[][] = [];
      for (const mode of ['monolithic', 'bidirectional'] as const) {
        await cluster.setMode(mode);
        const all = await Promise.all(
          ['a', 'b', 'c'].map((id, seed) => converse(cluster, id, 2, { ...long, seed, temperature: 1 })),
        );
        seen.push(all.flatMap(fingerprint));
      }
      expect(seen[1]).toEqual(seen[0]);
    });
  });
});
