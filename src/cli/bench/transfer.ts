/**
 * `npm run bench:transfer`: real transfers between two engines compared with their slowest stage, the transfer of one block,
 * and what a pull costs the holder's decode steps. Alternating rounds, in the engines' own threads.
 */
import { parseRunConfig } from '../../config/run.ts';
import { EngineCluster } from '../../fleet/cluster.ts';
import { clusterOptions, forMeasuring } from '../../fleet/from-config.ts';
import { type CopyRate, measureCopyRate } from '../../lab/copy-rates.ts';
import { formatBytes, plural } from '../../measure/format.ts';
import { median } from '../../measure/statistics.ts';
import { loadArchitecture } from '../../model/load.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { left, right } from '../../report/document.ts';
import { DEFAULT_CHUNK_BYTES } from '../../transport/chunks.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { benchOptions, report, runBench, spread } from './options.ts';
import { blocksOf } from './transfer/blocks.ts';
import { type ConcurrentDecode, decodeLines, measureConcurrentDecode } from './transfer/decode.ts';
import { slowestStage, stagesMs } from './transfer/stages.ts';

const MIB = 2 ** 20;
const SIZES = [MIB, 4 * MIB, 16 * MIB];
/** More rounds for one block, because its times are short and vary much. */
const ROUNDS_OF_ONE_BLOCK = 100;
/**
 * Rounds that are not counted, by a READ's blocks. A server's READs run compiled code: the first ten of one block take
 * twice as long as those after the first hundred, the very first ten times.
 */
const WARM_UP_ROUNDS = { oneBlock: 200, more: 20 };
const DECODING = [1, 4] as const;
const MAX_MODEL_LEN = 512;

await runBench(async () => {
  const options = await benchOptions(
    'bench:transfer',
    'KV copied between P and D, compared with the slowest stage',
    {
      model: 'tiny',
      rounds: 7,
    },
  );
  const config = parseRunConfig({ model: options.model, adapter: options.adapter });
  const architecture = await loadArchitecture(config.model, await nodePlatform.openModel(config.model));
  const adapter = await useAdapter(config.adapter);
  const { blockBytes, count } = blocksOf(architecture, config, Math.max(...SIZES));
  const decodeBlocks = (Math.max(...DECODING) * MAX_MODEL_LEN) / config.blockSize;
  const numBlocks = Math.max(count, decodeBlocks) + 1;
  const cluster = await EngineCluster.start(nodePlatform, {
    ...forMeasuring(clusterOptions(config, architecture, adapter.software)),
    prefill: { numBlocks, enablePrefixCaching: false },
    decode: { numBlocks, enablePrefixCaching: false },
    maxModelLen: MAX_MODEL_LEN,
  });
  try {
    const prefill = cluster.engine('prefill');
    const decode = cluster.engine('decode');
    const rates: CopyRate[] = [];
    const measure = async (bytes: number, rounds: number, warmUpRounds: number): Promise<void> => {
      const copy = { bytes, chunkBytes: DEFAULT_CHUNK_BYTES, rounds, warmUpRounds };
      rates.push(await measureCopyRate(prefill, decode, numBlocks, copy));
      rates.push(await measureCopyRate(decode, prefill, numBlocks, copy));
    };
    const oneBlockRounds = Math.max(options.rounds, ROUNDS_OF_ONE_BLOCK);
    await measure(blockBytes, oneBlockRounds, WARM_UP_ROUNDS.oneBlock);
    for (const bytes of SIZES) await measure(bytes, options.rounds, WARM_UP_ROUNDS.more);
    const pulls: ConcurrentDecode[] = [];
    for (const sequences of DECODING) {
      const pull = { bytes: Math.max(...SIZES), rounds: options.rounds, sequences };
      pulls.push(await measureConcurrentDecode(prefill, decode, numBlocks, pull));
    }
    const { software } = cluster.info.adapter;
    report(
      options,
      [
        `KV of ${config.model}, blocks of ${formatBytes(blockBytes)}, on ${cluster.info.adapter.name}`,
        `chunks of ${formatBytes(DEFAULT_CHUNK_BYTES)}; medians of ${plural(options.rounds, 'round')} [min, max], ${oneBlockRounds} for one block, after uncounted ones`,
        '',
        ...transferTable(rates, software),
        '',
        'single stages, GB/s: each alone, and each engine’s two in parallel with the other’s',
        ...stageTable(rates),
        '',
        ...decodeLines(pulls, software),
      ],
      { adapter: cluster.info.adapter, model: config.model, blockBytes, rates, pulls },
    );
  } finally {
    await cluster.close();
  }
});

function wayOf(rate: CopyRate): string {
  return rate.from.startsWith('prefill') ? 'P→D' : 'D→P';
}

function gbps(bytes: number, ms: number): string {
  return (bytes / ms / 1e6).toFixed(2);
}

function transferTable(rates: readonly CopyRate[], software: boolean): string[] {
  const columns = [
    left('way'),
    ...right('size', 'transfer ms', 'GB/s'),
    left('slowest stage'),
    ...right('GB/s', 'of it'),
  ];
  const rows = rates.map((rate) => {
    const transferMs = median(rate.pipelinedMs);
    const slowest = slowestStage(rate, software);
    return [
      wayOf(rate),
      formatBytes(rate.bytes),
      spread(rate.pipelinedMs),
      gbps(rate.bytes, transferMs),
      slowest.name,
      gbps(rate.bytes, slowest.ms),
      `${Math.round((slowest.ms / transferMs) * 100)}%`,
    ];
  });
  return renderTable(columns, rows, plainStyle);
}

function stageTable(rates: readonly CopyRate[]): string[] {
  const stages = rates.map((rate) => stagesMs(rate));
  const names = Object.keys(stages[0]!);
  const columns = [{ head: 'way', align: 'left' as const }, { head: 'size' }];
  const rows = rates.map((rate, i) => [
    wayOf(rate),
    formatBytes(rate.bytes),
    ...Object.values(stages[i]!).map((ms) => gbps(rate.bytes, ms)),
  ]);
  return renderTable([...columns, ...names.map((head) => ({ head }))], rows, plainStyle);
}
