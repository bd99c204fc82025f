/**
 * `npm run bench:handover`: how much of the transfer to D remains when P has computed a prompt's last chunk: all of it when D
 * pulls, little when D reads while P computes. The same prompts in alternating rounds, with and without a slow link.
 */
import { HANDOVERS, type Handover, parseRunConfig } from '../../../config/run.ts';
import { EngineCluster } from '../../../fleet/cluster.ts';
import { clusterOptions, forMeasuring } from '../../../fleet/from-config.ts';
import { formatFigures, formatMs, plural } from '../../../measure/format.ts';
import type { Span, SpanName, TurnSide } from '../../../measure/spans/spans.ts';
import { median } from '../../../measure/statistics.ts';
import { loadArchitecture } from '../../../model/load.ts';
import { nodePlatform, useAdapter } from '../../../platform/node.ts';
import { left, right } from '../../../report/document.ts';
import { parseLink } from '../../../transport/link.ts';
import { plainStyle, renderTable } from '../../output/table.ts';
import { benchOptions, report, runBench } from '../options.ts';

/** Tokens per step. */
const CHUNK = 256;
/** Four equal chunks, four with a shorter last one, eight. */
const PROMPTS = [4 * CHUNK, 3.5 * CHUNK, 8 * CHUNK];
const LINKS = [null, '10e6'];

interface Measured {
  /** Milliseconds: the whole READ; from the end of P's last chunk until D has all blocks; to the first token. */
  readMs: number;
  leftMs: number;
  ttftMs: number;
}

interface Case {
  link: string | null;
  promptTokens: number;
  chunks: number;
  rounds: Record<Handover, Measured[]>;
}

await runBench(async () => {
  const what = 'what remains of a handover after the last chunk, pulled and streamed';
  const options = await benchOptions('bench:handover', what, { model: 'tiny', rounds: 5 });
  const config = parseRunConfig({
    model: options.model,
    adapter: options.adapter,
    prefixCaching: false,
    maxNumBatchedTokens: CHUNK,
    maxModelLen: Math.max(...PROMPTS) + 16,
  });
  const architecture = await loadArchitecture(config.model, await nodePlatform.openModel(config.model));
  const adapter = await useAdapter(config.adapter);
  const base = forMeasuring(clusterOptions(config, architecture, adapter.software));
  const cluster = await EngineCluster.start(nodePlatform, {
    ...base,
    mode: 'unidirectional',
    decode: { ...base.decode, enablePrefixCaching: false },
  });
  try {
    // The first read between two engines includes a handshake.
    await measure(cluster, 2 * CHUNK, 0);
    const cases: Case[] = [];
    for (const link of LINKS) {
      for (const promptTokens of PROMPTS) {
        const chunks = Math.ceil(promptTokens / CHUNK);
        const one: Case = { link, promptTokens, chunks, rounds: { pull: [], streamed: [] } };
        for (let round = 0; round < options.rounds; round++) {
          for (const handover of round % 2 === 0 ? HANDOVERS : HANDOVERS.toReversed()) {
            await cluster.configure({ handover, link: link === null ? null : parseLink(link) });
            one.rounds[handover].push(await measure(cluster, promptTokens, round));
          }
        }
        cases.push(one);
      }
    }
    report(
      options,
      [
        `${config.model} on ${cluster.info.adapter.name}, P computes ${CHUNK} tokens per step; medians of ${plural(options.rounds, 'alternating round')}.`,
        'read: the whole READ when D pulls. left: from the end of P’s last chunk until D has all blocks. streamed is kvferry’s own handover; its share is relative to the pulled READ’s time.',
        '',
        ...table(cases),
      ],
      { adapter: cluster.info.adapter, model: config.model, chunkTokens: CHUNK, cases },
    );
  } finally {
    await cluster.close();
  }
});

async function measure(cluster: EngineCluster, promptTokens: number, round: number): Promise<Measured> {
  const { vocabSize } = cluster.info.model;
  const promptTokenIds = Array.from(
    { length: promptTokens },
    (_, i) => 5 + ((i * 7919 + round * 104_729) % (vocabSize - 5)),
  );
  const spans: Span[] = [];
  const unlisten = cluster.onSpan((span) => spans.push(span));
  const sampling = { maxTokens: 1, ignoreEos: true };
  let ttftMs = 0;
  for await (const { final } of cluster.generate({ conversationId: null, promptTokenIds, sampling })) {
    if (final) ttftMs = final.ttftMs;
  }
  unlisten();
  return { ...handedOver(spans), ttftMs };
}

/** Times from one turn's spans. */
function handedOver(spans: readonly Span[]): Pick<Measured, 'readMs' | 'leftMs'> {
  const of = (wanted: TurnSide, ...names: readonly SpanName[]) =>
    spans.filter(({ name, turns }) => names.some((one) => one === name) && turns[0]?.side === wanted);
  const computedMs = Math.max(...of('prefill', 'forward', 'sampling').map(({ endMs }) => endMs));
  const [transfer] = of('decode', 'transfer');
  return { readMs: transfer!.endMs - transfer!.startMs, leftMs: transfer!.endMs - computedMs };
}

function table(cases: readonly Case[]): string[] {
  const columns = [
    left('link'),
    ...right('tokens', 'chunks', 'read ms', 'left', 'streamed', 'share', 'TTFT ms', 'streamed'),
  ];
  const rows = cases.map(({ link, promptTokens, chunks, rounds: { pull, streamed } }) => {
    const middle = (list: readonly Measured[], key: keyof Measured) => median(list.map((one) => one[key]));
    const readMs = middle(pull, 'readMs');
    const leftMs = middle(streamed, 'leftMs');
    return [
      link === null ? 'none' : `${formatFigures(parseLink(link).bytesPerSecond / 1e6)} MB/s, modelled`,
      String(promptTokens),
      String(chunks),
      formatMs(readMs),
      formatMs(middle(pull, 'leftMs')),
      formatMs(leftMs),
      `${((100 * leftMs) / readMs).toFixed(0)}%`,
      formatMs(middle(pull, 'ttftMs')),
      formatMs(middle(streamed, 'ttftMs')),
    ];
  });
  return renderTable(columns, rows, plainStyle);
}
