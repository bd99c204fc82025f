/** A store with engines: loads of 16 MiB compared with transfers between engines, and the cost of saving in TTFT and TPOT. */
import { STORE_ADDRESS } from '../../../config/connectors.ts';
import { parseRunConfig } from '../../../config/run.ts';
import { RequestError, TransferError } from '../../../errors.ts';
import { EngineCluster } from '../../../fleet/cluster.ts';
import { clusterOptions, forMeasuring } from '../../../fleet/from-config.ts';
import { measureCopyRate } from '../../../lab/copy-rates.ts';
import { ClusterTarget } from '../../../lab/multiturn/cluster-target.ts';
import { pathChoice } from '../../../lab/multiturn/paths.ts';
import { runArm } from '../../../lab/multiturn/rounds.ts';
import { formatInterval, formatPercent } from '../../../measure/format.ts';
import type { Ratio } from '../../../measure/schemas/bench-report.ts';
import { median } from '../../../measure/statistics.ts';
import { comparePair } from '../../../measure/summaries/bench-comparison.ts';
import type { MeasuredRequest } from '../../../measure/summaries/bench-summary.ts';
import { loadArchitecture } from '../../../model/load.ts';
import { systemClock } from '../../../platform/clock.ts';
import { nodePlatform, useAdapter } from '../../../platform/node.ts';
import { DEFAULT_CHUNK_BYTES } from '../../../transport/chunks.ts';
import { generateConversations, parseGenerator } from '../../../workload/generate.ts';
import { Random } from '../../../workload/random.ts';
import { LOWEST_TOKEN_ID } from '../../../workload/random-conversations.ts';
import { type BenchOptions, spread } from '../options.ts';
import { blocksOf } from '../transfer/blocks.ts';
import { slowestStage } from '../transfer/stages.ts';

const LOAD_BYTES = 16 * 2 ** 20;
const LOAD_GOAL = 0.85;
const SAVING_GOAL = 0.03;

/** Conversations of one turn: nothing to load, everything to save. */
const WORKLOAD = {
  filetype: 'generate_conversations',
  num_conversations: 12,
  prompt_input: {
    num_turns: { distribution: 'constant', value: 2 },
    common_prefix_num_tokens: { distribution: 'constant', value: 0 },
    prefix_num_tokens: { distribution: 'constant', value: 0 },
    num_tokens: { distribution: 'uniform', min: 120, max: 200 },
  },
  prompt_output: { num_tokens: { distribution: 'constant', value: 32 } },
};

export interface StoreWithEngines {
  model: string;
  adapter: string;
  loadBytes: number;
  /** From the store to P and from D to P, alternating. */
  loadMs: number[];
  pullMs: number[];
  slowest: { name: string; ms: number };
  /** Without saves / with saves: below 1, saving costs time. */
  ttft: Ratio;
  tpot: Ratio;
  savedBytes: number;
}

export async function measureWithEngines({
  model,
  adapter: wanted,
  rounds,
}: BenchOptions): Promise<StoreWithEngines> {
  const config = parseRunConfig({ model, adapter: wanted, prefixCaching: false });
  const architecture = await loadArchitecture(model, await nodePlatform.openModel(model));
  const adapter = await useAdapter(wanted);
  const { count } = blocksOf(architecture, config, LOAD_BYTES);
  const options = forMeasuring(clusterOptions(config, architecture, adapter.software));
  const pool = { numBlocks: count + 1, enablePrefixCaching: false };
  const cluster = await EngineCluster.start(nodePlatform, {
    ...{ ...options, prefill: pool, decode: pool, store: { bytes: 4 * LOAD_BYTES, eviction: 's3fifo' } },
  });
  try {
    const saving = await measureSaving(cluster, rounds, architecture.vocabSize);
    const loads = await measureLoads(cluster, count, rounds, adapter.software);
    return { model, adapter: adapter.name, ...saving, ...loads };
  } finally {
    await cluster.close();
  }
}

async function measureLoads(cluster: EngineCluster, count: number, rounds: number, software: boolean) {
  const [reader, holder] = [cluster.engine('prefill'), cluster.engine('decode')];
  const pairs = Array.from({ length: count }, (_, i) => ({ group: 0, remote: i + 1, local: i + 1 }));
  await cluster.store!.serveAnyBlock();
  const bytes = count * holder.started.blockBytes;
  const rate = await measureCopyRate(holder, reader, count + 1, {
    bytes,
    chunkBytes: DEFAULT_CHUNK_BYTES,
    rounds,
  });
  const times = { loadMs: [] as number[], pullMs: [] as number[] };
  const read = async (remote: typeof STORE_ADDRESS | typeof holder.address): Promise<number> => {
    const { outcome, message, wallMs } = await reader.lab.measureRead(remote, pairs);
    if (outcome !== 'done') throw new TransferError(`${remote.engineId} to P: ${message}`);
    return wallMs;
  };
  // Round 0 includes the handshake.
  for (let round = 0; round <= rounds; round++) {
    const storeFirst = round % 2 === 0;
    const [first, second] = storeFirst ? [STORE_ADDRESS, holder.address] : [holder.address, STORE_ADDRESS];
    const [a, b] = [await read(first), await read(second)];
    if (round === 0) continue;
    times.loadMs.push(storeFirst ? a : b);
    times.pullMs.push(storeFirst ? b : a);
  }
  return { loadBytes: bytes, ...times, slowest: slowestStage(rate, software) };
}

async function measureSaving(cluster: EngineCluster, rounds: number, vocabSize: number) {
  const tokens = { kind: 'drawn', lowest: LOWEST_TOKEN_ID, highest: vocabSize - 1 } as const;
  const conversations = generateConversations(parseGenerator(WORKLOAD, 'the workload'), {
    scale: 1,
    seed: 1,
    tokens,
  });
  const target = new ClusterTarget(cluster, { temperature: 0 });
  const { numBlocks } = cluster.settings.prefill;
  const pools = { prefixCaching: false, pBlocks: numBlocks, dBlocks: numBlocks };
  const ways = (['recompute', 'both'] as const).map((name) => ({
    path: pathChoice(name, { offloadPromptOnly: false }),
    requests: [] as MeasuredRequest[],
  }));
  let savedBytes = 0;
  for (let round = 0; round <= rounds; round++) {
    for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
      // Nothing is pulled back, because there is only one turn.
      const arm = { mode: 'unidirectional' as const, threshold: 0, path: way.path };
      const { requests, errors, carried } = await runArm(cluster, target, pools, arm, conversations, {
        ...{ round: Math.max(1, round), numClients: 2, maxActive: 2, maxRequests: null, maxTurns: null },
        ...{ requestRate: 0, pick: 'round_robin', warmupStep: false, earlyStop: false, auditor: null },
        ...{ limitTokens: { min: 0, max: 0 }, seed: 1, signal: new AbortController().signal },
        ...{
          now: () => performance.now(),
          sleep: (ms, signal) => systemClock.sleep(ms, signal),
          onRequest() {},
        },
      });
      const [failure] = errors.keys();
      if (failure !== undefined) throw new RequestError(`${way.path.name}: ${failure}`);
      if (round === 0) continue;
      way.requests.push(...requests);
      savedBytes += carried!.pToStore + carried!.dToStore;
    }
  }
  const random = new Random(1);
  const [without, saving] = ways.map(({ path, requests }) => ({ mode: path.name, requests }));
  const pair = comparePair(without!, saving!, {
    resamples: 1000,
    confidence: 0.95,
    random: () => random.float(),
    seed: 1,
  })!;
  return { ttft: pair.ttft_ms.mean, tpot: pair.tpot_ms.mean, savedBytes: Math.round(savedBytes / rounds) };
}

export function engineLines(found: StoreWithEngines): string[] {
  const { loadMs, pullMs, slowest, ttft, tpot } = found;
  const [load, pull] = [median(loadMs), median(pullMs)];
  const [ofStage, ofPull] = [slowest.ms / load, pull / load];
  const percent = (share: number): string => `${Math.round(100 * share)}%`;
  const reached = ofStage >= LOAD_GOAL || ofPull >= 1;
  return [
    `${found.model} on ${found.adapter}: ${(found.loadBytes / 2 ** 20).toFixed(1)} MiB, ms, median [least, most]`,
    `  store to P           ${spread(loadMs)}`,
    `  D to P               ${spread(pullMs)}`,
    `  slowest stage        ${slowest.ms.toFixed(1)} (${slowest.name})`,
    `  a load reaches ${percent(ofStage)} of the speed of that and ${percent(ofPull)} of D to P;`,
    `  goal 85% of the stage, or a transfer's: ${reached ? 'within' : 'MISSED'}`,
    '',
    `Saving (${(found.savedBytes / 1e6).toFixed(1)} MB per round) compared with not saving; goal: at most 3%:`,
    ...[['TTFT', ttft] as const, ['TPOT', tpot] as const].map(
      ([name, ratio]) => `  ${name} ${costOf(ratio)}`,
    ),
  ];
}

/** The cost of saving, with its interval. */
function costOf({ ratio, low, high }: Ratio): string {
  if (ratio === null || low === null || high === null) return 'not known';
  const added = (of: number): number => 1 / of - 1;
  const cost = { value: added(ratio), low: added(high), high: added(low) };
  const judged =
    cost.value <= SAVING_GOAL ? 'within' : cost.low <= SAVING_GOAL ? 'not distinguishable from it' : 'MISSED';
  return `${formatInterval(cost, formatPercent)}: ${judged}`;
}
