import { expect, it } from 'vitest';
import type { CostProfile } from '../../src/config/cost-profile.ts';
import { parseRunConfig } from '../../src/config/run.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import { calibrate } from '../../src/lab/calibrate.ts';
import { prepareTurn } from '../../src/lab/sweep.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';

/** A profile in which a pull costs `pullMs` and computing a token costs 10 s. */
const priced = (profile: CostProfile, pullMs: number): CostProfile => ({
  ...profile,
  pull: { overhead_ms: pullMs, fixed_ms: 0, ms_per_byte: 0 },
  prefill: { fixed_ms: 0, ms_per_token: 1e4, ms_per_token_context: 0 },
});

it('a cost profile measured on a running cluster decides whether to pull, and is refined by what is observed', async () => {
  await withCluster({}, async (cluster) => {
    const profile = await calibrate(cluster, { version: 'test', date: 'today', quick: true });
    expect(profile.fit.samples).toBe(2 * 3 * 3);
    expect(profile).toMatchObject({ model: 'nano', block_bytes: cluster.info.model.blockBytes, link: null });
    expect(profile.prefill.fixed_ms).toBeGreaterThan(0);
    const computed = await converse(cluster, 'a', 3);

    await cluster.configure({ costProfile: priced(profile, 1e9) });
    const dear = await converse(cluster, 'b', 3);
    expect(dear.map(({ result }) => result.prompt.pulledTokens)).toEqual([0, 0, 0]);
    const [, recomputeMs] =
      /^cost-aware: pull ~1000000000 ms > recompute ~([\d.]+) ms$/.exec(
        dear[2]!.result.prompt.noPull?.reason ?? '',
      ) ?? [];
    // The steps of two turns were observed. Unobserved, 65 tokens would cost 650 s.
    expect(Number(recomputeMs)).toBeLessThan(100e3);

    await cluster.configure({ costProfile: priced(profile, 0) });
    const cheap = await converse(cluster, 'c', 3);
    expect(cheap.map(({ result }) => result.prompt.pulledTokens)).toEqual([0, 32, 65]);
    expect(fingerprint(cheap)).toEqual(fingerprint(computed));
    expect(fingerprint(dear)).toEqual(fingerprint(computed));

    await cluster.configure({ costProfile: null, recomputeThreshold: 64 });
    const fixed = await converse(cluster, 'd', 2);
    expect(fixed[1]!.result.prompt.noPull).toEqual({ by: 'policy', reason: '32 < threshold 64' });
  });
});

it.each([
  [10, 64, true],
  [6, 64, false],
  [10, 4, false],
])(
  'calibration with pools of %d blocks and a store of %d measures the costs of the store: %s',
  async (numBlocks, slots, measured) => {
    const pool = { numBlocks, enablePrefixCaching: false };
    // nano has 256 bytes of KV per token.
    const store = { bytes: slots * 16 * 256, eviction: 's3fifo', remote: false } as const;
    await withCluster({ store, prefill: pool, decode: pool }, async (cluster) => {
      const profile = await calibrate(cluster, { version: '0', date: 'now', quick: true, rounds: 1 });
      expect(profile.fit.samples).toBe(2 * 2);
      // One load and one save at each of two lengths.
      expect(profile.store?.load.samples).toBe(measured ? 2 : undefined);
      expect(profile.store?.save.samples).toBe(measured ? 2 : undefined);
    });
  },
);

it('when all saves have the same size, the measured cost of a save is per byte only', async () => {
  const store = { bytes: 2 ** 22, eviction: 's3fifo', remote: false } as const;
  await withCluster({ store, maxNumBatchedTokens: 16 }, async (cluster) => {
    const profile = await calibrate(cluster, { version: '0', date: 'now', quick: true, rounds: 1 });
    const { save } = profile.store!;
    expect(save.fixed_ms).toBe(0);
    expect(save.ms_per_byte).toBeGreaterThan(0);
  });
});

it('calibration measures pulls under any routing policy, and fails with a hint when --ttl is too short', async () => {
  await withCluster({}, async (cluster) => {
    const options = { version: '0', date: 'now', quick: true, rounds: 1 };
    // Sends short prompts to D alone.
    await cluster.configure({ routing: { name: 'llm-d', parameters: {} } });
    expect((await calibrate(cluster, options)).fit.samples).toBe(2 * 3);
    expect(cluster.settings.routing!.name).toBe('llm-d');
    await cluster.configure({ decoderTtlMs: 5000 });
    await expect(calibrate(cluster, options)).rejects.toThrow(
      /pulled 0 tokens.* nothing was offered to P .* --ttl/,
    );
  });
});

it('a prepared turn finds nothing on any P, even if the fleet file turns their prefix caches on', async () => {
  const rolesets = [{ prefill: [{ prefixCaching: true }, { prefixCaching: true }], decode: 1 }];
  const { fleet } = clusterOptions(
    parseRunConfig({ model: 'nano', fleet: { rolesets } }),
    presetArchitecture('nano'),
    true,
  );
  await withCluster({ fleet: fleet! }, async (cluster) => {
    await cluster.configure({ mode: 'bidirectional', prefixCaching: false });
    const history = Array.from({ length: 64 }, (_, i) => 10 + ((i * 37) % 400));
    const turn = await prepareTurn(cluster, { history, added: [7, 8, 9], keep: 0, signal: undefined });
    const pulled: number[] = [];
    // P take turns, so each serves twice.
    for (let i = 0; i < 4; i++) pulled.push((await turn.serve('always')).prompt.pulledTokens);
    expect(pulled).toEqual([64, 64, 64, 64]);
    await turn.end();
  });
});
