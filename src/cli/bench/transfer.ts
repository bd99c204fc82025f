/**
 * `npm run bench:transfer`: transfers between two engines as they run in earnest (stages overlapping), against the same
 * stages done by hand, one after the other, with the same blocks and chunks, in alternating rounds.
 */
import { EngineCluster } from '../../cluster/cluster.ts';
import { type CopyRate, measureCopyRate } from '../../cluster/copy-rates.ts';
import { clusterOptions } from '../../cluster/from-config.ts';
import { parseRunConfig } from '../../config/run.ts';
import { quantile } from '../../measure/statistics.ts';
import { loadArchitecture } from '../../model/load.ts';
import { kvBlockBytes } from '../../model/types.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { DEFAULT_CHUNK_BYTES } from '../../transport/transport.ts';
import { formatBytes, formatMs } from '../format.ts';
import { plainStyle, renderTable } from '../table.ts';
import { benchOptions, report, runBench } from './options.ts';

const MIB = 2 ** 20;
const SIZES = [MIB / 16, MIB, 4 * MIB, 16 * MIB];

await runBench(async () => {
  const options = benchOptions('bench:transfer', 'KV copied between P and D, against its stages by hand', {
    model: 'tiny',
    rounds: 7,
  });
  const config = parseRunConfig({ model: options.model, adapter: options.adapter });
  const architecture = await loadArchitecture(config.model, await nodePlatform.openModel(config.model));
  const adapter = await useAdapter(config.adapter);
  const blockBytes = kvBlockBytes(architecture, config.blockSize, config.kvDtype);
  const numBlocks = Math.ceil(Math.max(...SIZES) / blockBytes) + 1;
  const cluster = await EngineCluster.start(nodePlatform, {
    ...clusterOptions(config, architecture, adapter.software),
    prefill: { numBlocks, enablePrefixCaching: false },
    decode: { numBlocks, enablePrefixCaching: false },
    maxModelLen: 512,
  });
  try {
    const prefill = cluster.engine('prefill');
    const decode = cluster.engine('decode');
    const rates: CopyRate[] = [];
    for (const bytes of SIZES) {
      const copy = { bytes, chunkBytes: DEFAULT_CHUNK_BYTES, rounds: options.rounds };
      rates.push(await measureCopyRate(prefill, decode, numBlocks, copy));
      rates.push(await measureCopyRate(decode, prefill, numBlocks, copy));
    }
    report(
      options,
      [
        `KV of ${config.model} (blocks of ${formatBytes(blockBytes)}) between two engines on ${cluster.info.adapter.name}`,
        `chunks of ${formatBytes(DEFAULT_CHUNK_BYTES)}; medians of ${options.rounds} rounds [least, most]; by hand is the sum of the`,
        'stages alone: device to mapped, to slab, to mapped, to device.',
        '',
        ...table(rates),
      ],
      { adapter: cluster.info.adapter, model: config.model, blockBytes, rates },
    );
  } finally {
    await cluster.close();
  }
});

function table(rates: readonly CopyRate[]): string[] {
  const columns = [
    { head: 'way', align: 'left' as const },
    { head: 'size' },
    { head: 'ms' },
    { head: 'GB/s' },
    { head: 'by hand ms' },
    { head: 'GB/s' },
    { head: 'ratio' },
  ];
  const rows = rates.map((rate) => {
    const pipelined = quantile(rate.pipelinedMs, 0.5);
    const byHand = quantile(rate.byHandMs, 0.5);
    return [
      rate.from.startsWith('prefill') ? 'P→D' : 'D→P',
      formatBytes(rate.bytes),
      spread(rate.pipelinedMs),
      (rate.bytes / pipelined / 1e6).toFixed(2),
      spread(rate.byHandMs),
      (rate.bytes / byHand / 1e6).toFixed(2),
      (byHand / pipelined).toFixed(2),
    ];
  });
  return renderTable(columns, rows, plainStyle);
}

function spread(ms: readonly number[]): string {
  return `${formatMs(quantile(ms, 0.5))} [${formatMs(Math.min(...ms))}, ${formatMs(Math.max(...ms))}]`;
}
