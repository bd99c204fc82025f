import { afterEach, describe, expect, it } from 'vitest';
import type { Mode } from '../../src/config/modes.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { PolicyChange } from '../../src/fleet/types.ts';
import { parseLink } from '../../src/transport/link.ts';
import { whileTesting } from '../while-testing.ts';
import { converse, fingerprint, generate, startCluster, withCluster } from './cluster-fixture.ts';

const modes: Mode[] = ['monolithic', 'unidirectional', 'bidirectional'];

/** With f16 weights and f16 KV; settings are restored after each test. */
const shared = whileTesting(() => startCluster());

afterEach(async () => {
  await shared().configure({
    ...{ mode: 'bidirectional', recomputeThreshold: 0, tokenCheck: true, prefixCaching: false, link: null },
    ...{ prefillBlocks: 128, decodeBlocks: 128 },
  });
  await shared().checkIntegrity();
});

async function sameInAllModes(cluster: EngineCluster, temperature: number) {
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
      // D holds everything but its last token: prompt + output - 1.
      expect(pulled).toEqual([0, 21 + 11, 54 + 11, 87 + 11]);
    } else expect(pulled).toEqual([0, 0, 0, 0]);
  }
  expect(seen[1]).toEqual(seen[0]);
  expect(seen[2]).toEqual(seen[0]);
  expect(new Set(seen[0]).size).toBeGreaterThan(10);
}

describe('a conversation in the three modes', () => {
  it('gives the same tokens and logits, bit for bit (f16 weights, f16 KV)', async () => {
    for (const temperature of [0, 1]) await sameInAllModes(shared(), temperature);
  });

  it('gives the same tokens and logits, bit for bit (f32 weights, f32 KV)', async () => {
    await withCluster({ weightDtype: 'f32', kvDtype: 'f32' }, async (cluster) => {
      for (const temperature of [0, 1]) await sameInAllModes(cluster, temperature);
    });
  });

  it('gives the same bits and moves the same bytes with layout layer-pieces, in one copy per piece', async () => {
    const whole = await converse(shared(), 'c', 3);
    const pieces = await withCluster({ layout: 'layer-pieces' }, (cluster) => converse(cluster, 'c', 3));
    expect(fingerprint(pieces)).toEqual(fingerprint(whole));
    for (const [turn, { result }] of pieces.entries()) {
      const { dToP } = result.transfer;
      expect(dToP?.bytes).toBe(whole[turn]!.result.transfer.dToP?.bytes);
      // nano has 2 layers.
      if (dToP) expect(dToP.descriptors).toBe(2 * dToP.blocks);
    }
    expect(pieces[2]!.result.prompt.pulledTokens).toBeGreaterThan(32);
  });

  it('moves exactly the predicted blocks and bytes', async () => {
    const cluster = shared();
    const answers = await converse(cluster, 'c', 3);
    const { blockBytes } = cluster.info.model;
    const turns = answers.map(({ result }) => result.transfer);
    // 32 tokens on D are 2 blocks, 65 are 5. D pulls what it lacks: in turn 1, all of P's blocks.
    expect(turns[0]!.dToP).toBeNull();
    expect(turns[0]!.pToD).toMatchObject({ blocks: 2, bytes: 2 * blockBytes });
    expect(turns[1]!.dToP).toMatchObject({ blocks: 2, bytes: 2 * blockBytes });
    expect(turns[2]!.dToP).toMatchObject({ blocks: 5, bytes: 5 * blockBytes });
  });

  it('pulls at the threshold and recomputes one token below it', async () => {
    const second = async (recomputeThreshold: number) => {
      await shared().configure({ recomputeThreshold });
      return (await converse(shared(), 'c', 2))[1]!.result.prompt;
    };
    expect(await second(32)).toMatchObject({ pulledTokens: 32, noPull: null });
    expect(await second(33)).toMatchObject({
      pulledTokens: 0,
      noPull: { by: 'policy', reason: '32 < threshold 33' },
    });
  });

  it('can change threshold, link, caching and pools without restarting engines', async () => {
    const cluster = shared();
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
    // Timestamps in milliseconds keep about four decimal places.
    expect(stages.linkMs).toBeGreaterThan(bytes / 1e3 - 0.01);
    expect(cluster.info.link?.name).toBe('1e6');
    const free = await turn2({ link: null, prefixCaching: true });
    expect(free.transfer.dToP).toMatchObject({ throttled: false });
    // Turn one's 33 tokens are two full blocks of 16; P has one of them, from the first prompt.
    expect(free.prompt).toMatchObject({ localHitTokens: 16, pulledTokens: 16 });
    await turn2({ prefillBlocks: 8, decodeBlocks: 8 });
    expect((await cluster.stats()).map(({ numBlocks }) => numBlocks)).toEqual([8, 8]);
    await expect(cluster.configure({ prefillBlocks: 129 })).rejects.toThrow('was started with 128 KV blocks');
    await expect(cluster.setMode('both' as never)).rejects.toThrow("there is no mode 'both'");
    expect(new Set(seen.map((tokens) => tokens.join())).size).toBe(1);
  });

  /** Serves a second turn with the history edited at `place`: once with a pull, once by a single engine. */
  async function afterAnEdit(cluster: EngineCluster, place: number) {
    const [first] = await converse(cluster, 'c', 1);
    const history = [...first!.result.promptTokenIds, ...first!.result.outputTokenIds];
    const other = (history[place]! + 1) % 500;
    const promptTokenIds = [...history.slice(0, place), other, ...history.slice(place + 1), 40, 41, 42];
    const sampling = { maxTokens: 8, ignoreEos: true };
    const pulled = await generate(cluster, { conversationId: 'c', promptTokenIds, sampling });
    await cluster.setMode('monolithic');
    const alone = await generate(cluster, { conversationId: 'd', promptTokenIds, sampling });
    return {
      pulledTokens: pulled.result.prompt.pulledTokens,
      tokens: fingerprint([pulled]),
      alone: fingerprint([alone]),
    };
  }

  it('pulls no further than the first token that differs from the history', async () => {
    const { pulledTokens, tokens, alone } = await afterAnEdit(shared(), 25);
    expect(pulledTokens).toBe(25);
    expect(tokens).toEqual(alone);
  });

  it('gives wrong logits for an edited history when the token check is off, as in vLLM', async () => {
    await shared().configure({ tokenCheck: false });
    const { pulledTokens, tokens, alone } = await afterAnEdit(shared(), 5);
    expect(pulledTokens).toBe(32);
    expect(tokens).not.toEqual(alone);
  });
});
