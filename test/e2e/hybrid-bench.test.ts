/** What `kvferry bench` reports for a sliding-window model, measured on real engines. */
import { expect, it } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import { ClusterTarget } from '../../src/lab/multiturn/cluster-target.ts';
import { type Arm, planExperiments, sizeOf } from '../../src/lab/multiturn/experiments.ts';
import { type ArmRound, runRound } from '../../src/lab/multiturn/rounds.ts';
import { summariseExperiment } from '../../src/lab/multiturn/summary.ts';
import { kvCacheSpecs } from '../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { windowSavings } from '../../src/report/verdict.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { clientOptions } from '../lab/multiturn/client-options.ts';
import { withCluster } from './cluster-fixture.ts';

const model = 'tiny-hybrid';
const config = parseRunConfig({
  model,
  mode: ['unidirectional', 'bidirectional'],
  experiments: ['prefix-caching'],
  numClients: 1,
  threshold: 1,
});

/** 220 prompt tokens, 8 generated, then 40 more: the first turn is already longer than the windows of 128. */
const conversations = ['a', 'b'].map((id, seed): BenchConversation => {
  const turn = (inputTokens: number) => ({
    content: {
      kind: 'tokens' as const,
      tokenIds: Array.from({ length: inputTokens }, (_, i) => 10 + ((i * 31 + seed) % 400)),
    },
    inputTokens,
    outputTokens: 8,
  });
  return { id, turns: [turn(220), turn(40)] };
});

it('the benchmark of a sliding-window model reports the bytes its windows save, with identical tokens', async () => {
  const kvCacheGroups = kvCacheSpecs(presetArchitecture(model));
  const size = sizeOf(conversations, 1, 16, 8, kvCacheGroups.length);
  const plans = planExperiments(config, size, 1, true);
  const [plan] = plans;
  const pool = (numBlocks: number) => ({ numBlocks, enablePrefixCaching: true });
  const options = { model, kvCacheGroups, prefill: pool(plan!.pBlocks), decode: pool(plan!.dBlocks) };
  await withCluster(options, async (cluster) => {
    const rounds = new Map<Arm, ArmRound[]>();
    await runRound(
      cluster,
      new ClusterTarget(cluster, { temperature: 0 }),
      plans,
      conversations,
      // One at a time: otherwise peaks depend on which prefills overlap.
      clientOptions({ numClients: 1, maxActive: 1, now: () => performance.now() }),
      { armBegins() {}, requestDone() {}, armEnds: (_, arm, done) => void rounds.set(arm, [done]) },
    );
    const { info } = cluster;
    const { comparison, windows } = summariseExperiment(
      plan!,
      rounds,
      config,
      info.model.blockBytes,
      info.engines,
    );
    expect(comparison!.tokens_identical).toBe(true);
    const { windowed, all_full: full } = windows!;
    // P -> D in turn 1 of each conversation: 15 blocks in each of six groups; with windows, at most
    // ceil(128 / 16) + 1 in five of them.
    expect(full.bytes_p_to_d).toBeGreaterThanOrEqual(2 * 6 * 14 * info.model.blockBytes);
    expect(windowed.bytes_p_to_d).toBeLessThan(0.8 * full.bytes_p_to_d);
    expect(windowed.bytes_d_to_p).toBeLessThanOrEqual(full.bytes_d_to_p);
    expect(windowed.peak_kv_bytes.decode).toBeLessThan(full.peak_kv_bytes.decode);
    expect(windowed.peak_kv_bytes.prefill).toBeLessThan(full.peak_kv_bytes.prefill);
    expect(windowSavings(windows, config)).toMatch(
      /P .* less\), D .* less\); transfers .* less\); the same tokens\.$/,
    );
  });
});
