/**
 * `npm run bench:paths`: the same conversations by each way KV can take to P and D: computed again, pulled from each other,
 * through a store, or both; every pool of the same size, so that what is held for others is paid for in the same device
 * memory. Clusters of all ways stand side by side, rounds alternate. Tokens must be equal. `--rounds`: of each way.
 */

import type { Mode } from '../../config/modes.ts';
import { parseRunConfig, type RunConfigInput } from '../../config/run.ts';
import { EngineCluster } from '../../fleet/cluster.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { driveMode } from '../../lab/drive.ts';
import type { RunReport } from '../../measure/report.ts';
import { median } from '../../measure/statistics.ts';
import { loadArchitecture } from '../../model/load-weights.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { makeConversations } from '../../workload/made.ts';
import { formatMb } from '../format.ts';
import { left, plainStyle, renderTable, right } from '../table.ts';
import { benchOptions, report, runBench, spread } from './options.ts';

const SIZES = { conversations: 4, turns: 4, systemTokens: 64, userTokens: 64, outputTokens: 32 };
const STORE = 64 * 2 ** 20;
/** Blocks of each pool: room for all conversations at once, and for what D holds of each. */
const BLOCKS = 256;

const offloading = {
  kv_connector: 'OffloadingConnector',
  kv_connector_extra_config: { cpu_bytes_to_use: STORE },
};

/** P keeps nothing between turns: what comes from where is what counts. */
const WAYS: readonly { name: string; mode: Mode; settings: RunConfigInput }[] = [
  { name: 'recompute', mode: 'unidirectional', settings: {} },
  { name: 'pull from D', mode: 'bidirectional', settings: {} },
  {
    name: 'store',
    mode: 'unidirectional',
    settings: { kvTransferConfig: offloading, offloadPromptOnly: false },
  },
  { name: 'store, prompts only', mode: 'unidirectional', settings: { kvTransferConfig: offloading } },
  { name: 'both', mode: 'bidirectional', settings: { store: STORE } },
];

await runBench(async () => {
  const options = benchOptions('bench:paths', 'the ways that KV can take, at equal device memory', {
    model: 'tiny',
    rounds: 5,
  });
  const adapter = await useAdapter(options.adapter);
  const { model } = options;
  const architecture = await loadArchitecture(model, await nodePlatform.openModel(model));
  const conversations = makeConversations(SIZES, architecture.vocabSize, 1);
  const clusters: EngineCluster[] = [];
  try {
    for (const { settings } of WAYS) {
      const pools = { pBlocks: BLOCKS, dBlocks: BLOCKS, prefixCaching: false, threshold: 0 };
      const config = parseRunConfig({ model, ...pools, ...settings });
      clusters.push(
        await EngineCluster.start(nodePlatform, clusterOptions(config, architecture, adapter.software)),
      );
    }
    const runs: RunReport[][] = WAYS.map(() => []);
    // The first round warms up.
    for (let round = 0; round <= options.rounds; round++) {
      for (const [i, { mode }] of WAYS.entries()) {
        const run = await driveMode(clusters[i]!, mode, conversations, {
          ...{ sampling: { temperature: 0 }, concurrency: 2, signal: new AbortController().signal },
          ...{ now: () => performance.now(), keeper: null, onToken() {}, onTurn() {} },
        });
        if (round > 0) runs[i]!.push(run);
      }
    }
    const results = WAYS.map(({ name }, i) => resultOf(name, runs[i]!, runs[0]![0]!));
    const rows = results.map((one) => [
      one.way,
      spread(one.ttftMs),
      median(one.tpotMs).toPrecision(3),
      ...[one.bytesPToD, one.bytesDToP, one.bytesFromStore, one.bytesToStore, one.twoHopBytes].map(formatMb),
      one.same ? 'equal' : 'DIFFER',
    ]);
    const heads = ['P→D', 'D→P', 'store→', '→store', 'twice'];
    report(
      options,
      [
        `${architecture.name} on ${adapter.name}: ${SIZES.conversations} conversations of ${SIZES.turns} turns, 2 at a time; ${BLOCKS} blocks a pool`,
        'TTFT of turns 2+, ms: mean of a round, median [least, most] of rounds; MB a round',
        ...renderTable([left('way'), ...right('TTFT', 'TPOT', ...heads), left('tokens')], rows, plainStyle),
      ],
      { sizes: SIZES, blocks: BLOCKS, adapter: adapter.name, results },
    );
  } finally {
    await Promise.all(clusters.map((cluster) => cluster.close()));
  }
});

function resultOf(way: string, runs: readonly RunReport[], first: RunReport) {
  const of = (value: (summary: RunReport['summary']) => number): number =>
    median(runs.map(({ summary }) => value(summary)));
  return {
    way,
    ttftMs: runs.map(({ summary }) => summary.ttft_later_turns_ms!.mean),
    tpotMs: runs.map(({ summary }) => summary.tpot_ms!.mean),
    bytesPToD: of((summary) => summary.bytes_p_to_d),
    bytesDToP: of((summary) => summary.bytes_d_to_p),
    bytesFromStore: of((summary) => summary.bytes_from_store ?? 0),
    bytesToStore: of((summary) => summary.bytes_to_store ?? 0),
    twoHopBytes: of((summary) => summary.two_hop_bytes ?? 0),
    same: runs.every((run) => fingerprint(run) === fingerprint(first)),
  };
}

/** Turns end in any order. */
function fingerprint({ turns }: RunReport): string {
  const each = turns.map((turn) => [turn.conversation_id, turn.turn, ...turn.logits_digests].join());
  return each.toSorted().join('\n');
}
