import { describe, expect, it } from 'vitest';
import type { Mode } from '../../src/config/modes.ts';
import { serveConversations } from '../../src/lab/multiturn/clients.ts';
import { ClusterTarget } from '../../src/lab/multiturn/cluster-target.ts';
import { runArm } from '../../src/lab/multiturn/rounds.ts';
import { compareTokens } from '../../src/measure/summaries/bench-comparison.ts';
import { whileTesting } from '../while-testing.ts';
import { conversations, options } from './bench-load.ts';
import { startCluster } from './cluster-fixture.ts';

describe('the benchmark on real engines', () => {
  const cluster = whileTesting(startCluster);

  const serve = (mode: Mode, prefixCaching: boolean, pBlocks = 128) =>
    runArm(
      cluster(),
      new ClusterTarget(cluster(), { temperature: 0 }),
      { prefixCaching, pBlocks, dBlocks: 128 },
      { mode, threshold: 4 },
      conversations,
      options,
    );

  it('gives the same tokens in every mode and with every P cache, with several conversations in flight', async () => {
    const modes = [
      { mode: 'monolithic', ...(await serve('monolithic', true)) },
      { mode: 'unidirectional', ...(await serve('unidirectional', false)) },
      { mode: 'bidirectional', ...(await serve('bidirectional', false)) },
      { mode: 'bidirectional, caching', ...(await serve('bidirectional', true)) },
      { mode: 'bidirectional, evicting', ...(await serve('bidirectional', true, 28)) },
      { mode: 'decode-local', ...(await serve('decode-local', true)) },
    ];
    expect(modes.map(({ requests }) => requests.length)).toEqual(Array(6).fill(9));
    expect(compareTokens(modes)).toEqual({ tokens_identical: true, first_difference: null });
    const sum = (index: number, key: 'pulled_tokens' | 'local_hit_tokens' | 'computed_tokens') =>
      modes[index]!.requests.reduce((total, { sample }) => total + sample[key]!, 0);
    expect(sum(1, 'pulled_tokens')).toBe(0);
    expect(sum(2, 'pulled_tokens')).toBeGreaterThan(sum(3, 'pulled_tokens'));
    expect(sum(3, 'pulled_tokens')).toBeGreaterThan(0);
    // D serves turn two and later alone: nothing is transferred, and its cache has the history.
    const later = modes[5]!.requests.filter(({ sample }) => sample.turn > 1);
    for (const { bytesPToD, sample } of later) {
      expect(bytesPToD).toBe(0);
      expect(sample.local_hit_tokens).toBeGreaterThan(0);
    }
    // Only in bidirectional mode does D hold blocks for P, and none remain at the end.
    expect(modes[1]!.counters?.heldForP?.peakBlocks).toBe(0);
    expect(modes[2]!.counters?.heldForP?.peakBlocks).toBeGreaterThan(0);
    expect(modes[2]!.counters?.heldForP?.blockMs).toBeGreaterThan(0);
    for (const { usedBlocks } of await cluster().stats()) expect(usedBlocks).toBe(0);
    await cluster().checkIntegrity();
  });

  it('makes the same decisions in every run with one client', async () => {
    const decisions = async () => {
      await cluster().configure({ mode: 'bidirectional', prefixCaching: true, recomputeThreshold: 4 });
      const target = new ClusterTarget(cluster(), { temperature: 0 });
      const served = await serveConversations(target, conversations, { ...options, numClients: 1 });
      return served.requests.map(({ sample, output }) => [
        sample.conversation_id,
        sample.local_hit_tokens,
        sample.pulled_tokens,
        sample.computed_tokens,
        output,
      ]);
    };
    expect(await decisions()).toEqual(await decisions());
  });

  it('leaves the cluster usable when it is aborted', async () => {
    await cluster().configure({ mode: 'bidirectional' });
    const stop = new AbortController();
    const target = new ClusterTarget(cluster(), { temperature: 0 });
    const given = serveConversations(target, conversations, {
      ...options,
      signal: stop.signal,
      onRequest: () => stop.abort(new Error('enough')),
    });
    await expect(given).rejects.toThrow('enough');
    await target.settled();
    const again = await serve('bidirectional', true);
    expect(again.requests).toHaveLength(9);
  });
});
