import { describe, expect, it } from 'vitest';
import type { Mode } from '../../src/config/modes.ts';
import type { PolicyChange } from '../../src/fleet/types.ts';
import { parseLink } from '../../src/transport/link.ts';
import { converse, fingerprint, generate, nixlWith, withCluster } from './cluster-fixture.ts';

const modes: Mode[] = ['monolithic', 'unidirectional', 'bidirectional'];

describe('a conversation in the three modes', () => {
  for (const [weightDtype, kvDtype] of [
    ['f16', 'f16'],
    ['f32', 'f32'],
  ] as const) {
    for (const temperature of [0, 1]) {
      it(`gives the same tokens and logits, bit for bit (${weightDtype} weights, ${kvDtype} KV, temperature ${temperature})`, async () => {
        await withCluster({ weightDtype, kvDtype }, async (cluster) => {
          const seen: string[][] = [];
          for (const mode of modes) {
            await cluster.setMode(mode);
            const answers = await converse(cluster, 'c', 4, { temperature });
            seen.push(fingerprint(answers));
            for (const { result } of answers) {
              const { prompt } = result;
              expect(prompt.localHitTokens + prompt.pulledTokens + prompt.computedTokens).toBe(
                result.promptTokenIds.length,
              );
            }
            const pulled = answers.map(({ result }) => result.prompt.pulledTokens);
            if (mode === 'bidirectional') {
              // D holds all but its last token: prompt + output - 1.
              expect(pulled).toEqual([0, 21 + 11, 54 + 11, 87 + 11]);
            } else expect(pulled).toEqual([0, 0, 0, 0]);
          }
          expect(seen[1]).toEqual(seen[0]);
          expect(seen[2]).toEqual(seen[0]);
          expect(new Set(seen[0]).size).toBeGreaterThan(10);
        });
      });
    }
  }

  it('gives the same bits and bytes with blocks in one piece a layer, which are copied one by one', async () => {
    const talk = (layout: 'contiguous' | 'layer-pieces') =>
      withCluster({ layout }, (cluster) => converse(cluster, 'c', 3));
    const whole = await talk('contiguous');
    const pieces = await talk('layer-pieces');
    expect(fingerprint(pieces)).toEqual(fingerprint(whole));
    for (const [turn, { result }] of pieces.entries()) {
      const { dToP } = result.transfer;
      expect(dToP?.bytes).toBe(whole[turn]!.result.transfer.dToP?.bytes);
      // nano has 2 layers.
      if (dToP) expect(dToP.descriptors).toBe(2 * dToP.blocks);
    }
    expect(pieces[2]!.result.prompt.pulledTokens).toBeGreaterThan(32);
  });

  it('moves exactly the bytes that the formula predicts', async () => {
    await withCluster({}, async (cluster) => {
      const answers = await converse(cluster, 'c', 3);
      const { blockBytes } = cluster.info.model;
      const turns = answers.map(({ result }) => result.transfer);
      // 32 of D's tokens are 2 blocks, 65 are 5; D pulls what it does not have itself: all of P's blocks in turn 1.
      expect(turns[0]!.dToP).toBeNull();
      expect(turns[0]!.pToD).toMatchObject({ blocks: 2, bytes: 2 * blockBytes });
      expect(turns[1]!.dToP).toMatchObject({ blocks: 2, bytes: 2 * blockBytes });
      expect(turns[2]!.dToP).toMatchObject({ blocks: 5, bytes: 5 * blockBytes });
    });
  });

  it('pulls at the threshold and recomputes one token below it', async () => {
    const second = async (recomputeThreshold: number) =>
      withCluster(
        nixlWith({ recomputeThreshold }),
        async (cluster) => (await converse(cluster, 'c', 2))[1]!.result.prompt,
      );
    expect(await second(32)).toMatchObject({ pulledTokens: 32, noPull: null });
    expect(await second(33)).toMatchObject({
      pulledTokens: 0,
      noPull: { by: 'policy', reason: '32 < threshold 33' },
    });
  });

  it('changes threshold, link, caching and pools while the engines stay', async () => {
    await withCluster({}, async (cluster) => {
      const seen: string[][] = [];
      const turn2 = async (change: PolicyChange) => {
        await cluster.configure(change);
        const answers = await converse(cluster, 'c', 2);
        seen.push(fingerprint(answers));
        return answers[1]!.result;
      };
      expect((await turn2({})).prompt.pulledTokens).toBe(32);
      expect((await turn2({ recomputeThreshold: 33 })).prompt).toMatchObject({ pulledTokens: 0 });
      const throttled = await turn2({ recomputeThreshold: 0, link: parseLink('1e6') });
      expect(throttled.transfer.dToP!.throttled).toBe(true);
      const { bytes, stages } = throttled.transfer.dToP!;
      // Times of day in milliseconds keep about four decimal places.
      expect(stages.linkMs).toBeGreaterThan(bytes / 1e3 - 0.01);
      expect(cluster.info.link?.name).toBe('1e6');
      const free = await turn2({ link: null, prefixCaching: true });
      expect(free.transfer.dToP).toMatchObject({ throttled: false });
      // 33 tokens of turn one leave two full blocks of 16 on P; the first prompt alone one.
      expect(free.prompt).toMatchObject({ localHitTokens: 16, pulledTokens: 16 });
      await turn2({ prefillBlocks: 8, decodeBlocks: 8 });
      expect((await cluster.stats()).map(({ numBlocks }) => numBlocks)).toEqual([8, 8]);
      await expect(cluster.configure({ prefillBlocks: 129 })).rejects.toThrow(
        'was started with 128 KV blocks',
      );
      expect(new Set(seen.map((tokens) => tokens.join())).size).toBe(1);
    });
  });

  it('pulls no further than the first token that differs from the history', async () => {
    await withCluster({}, async (cluster) => {
      const [first] = await converse(cluster, 'c', 1);
      const history = [...first!.result.promptTokenIds, ...first!.result.outputTokenIds];
      const edited = [...history.slice(0, 25), (history[25]! + 1) % 500, ...history.slice(26), 40, 41, 42];
      const sampling = { maxTokens: 8, ignoreEos: true };
      const pulled = await generate(cluster, { conversationId: 'c', promptTokenIds: edited, sampling });
      expect(pulled.result.prompt.pulledTokens).toBe(25);
      await cluster.setMode('monolithic');
      const alone = await generate(cluster, { conversationId: 'd', promptTokenIds: edited, sampling });
      expect(fingerprint([pulled])).toEqual(fingerprint([alone]));
    });
  });

  it("gives wrong logits when vLLM's behaviour is asked for and the history was edited", async () => {
    await withCluster(nixlWith({ tokenCheck: false }), async (cluster) => {
      const [first] = await converse(cluster, 'c', 1);
      const history = [...first!.result.promptTokenIds, ...first!.result.outputTokenIds];
      const edited = [...history.slice(0, 5), (history[5]! + 1) % 500, ...history.slice(6), 40, 41, 42];
      const sampling = { maxTokens: 8, ignoreEos: true };
      const pulled = await generate(cluster, { conversationId: 'c', promptTokenIds: edited, sampling });
      expect(pulled.result.prompt.pulledTokens).toBe(32);
      await cluster.setMode('monolithic');
      const alone = await generate(cluster, { conversationId: 'd', promptTokenIds: edited, sampling });
      expect(fingerprint([pulled])).not.toEqual(fingerprint([alone]));
    });
  });
});

describe('damaged KV is noticed', () => {
  for (const kind of ['drop-block', 'swap-blocks', 'shift-token', 'flip-bit'] as const) {
    it(`${kind} changes the logits`, async () => {
      const right = await withCluster({}, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 }));
      const damaged = { fault: { engine: 'prefill', kind }, poison: false, checksum: false } as const;
      const wrong = await withCluster(damaged, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 }));
      expect(fingerprint(wrong.slice(0, 1))).toEqual(fingerprint(right.slice(0, 1)));
      expect(fingerprint(wrong)).not.toEqual(fingerprint(right));
    });
  }

  it('a checksum finds a bit that flipped in the slab; the turn is computed again and comes out right', async () => {
    const right = await withCluster({}, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 }));
    const damaged = { fault: { engine: 'prefill', kind: 'flip-bit' }, checksum: true } as const;
    const mended = await withCluster(damaged, (cluster) => converse(cluster, 'c', 2, { newTokens: 40 }));
    expect(fingerprint(mended)).toEqual(fingerprint(right));
    expect(mended[1]!.result.prompt.pulledTokens).toBe(0);
  });
});
