/**
 * `npm run bench:memory`: serves turn after turn through P and D with pulling back, and measures their memory. Fails if device
 * memory or shared memory differs from that after the tenth turn.
 */
import { parseRunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { EngineCluster } from '../../fleet/cluster.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { formatBytes, formatCount } from '../../measure/format.ts';
import { loadArchitecture } from '../../model/load.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import { right } from '../../report/document.ts';
import { sumOf } from '../../sum.ts';
import { makeConversations } from '../../workload/random-conversations.ts';
import type { TokenConversation } from '../../workload/types.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { liveMemory } from './live-memory.ts';
import { benchOptions, report, runBench } from './options.ts';

const TURNS_EACH = 10;
const FIRST_MARK = 10;
const SIZES = { turns: TURNS_EACH, systemTokens: 32, userTokens: 24, outputTokens: 8 };

/** Allowed growth of live JavaScript memory from the second mark to the last, as a share; compiled code is a few percent. */
const MOST_GROWTH = 1.1;

interface Mark {
  turn: number;
  /** Bytes. */
  prefillGpu: number;
  decodeGpu: number;
  shared: number;
  /** Heaps of all threads and the external memory of their objects, after a garbage collection. */
  live: number;
}

await runBench(async () => {
  const options = await benchOptions('bench:memory', 'memory of P and D over many turns; a round is a turn', {
    model: 'nano',
    rounds: 1000,
  });
  // With fewer rounds there would be nothing to compare.
  if (options.rounds <= FIRST_MARK)
    throw new ConfigError(
      `--rounds is ${options.rounds}: wanted more than ${FIRST_MARK}, after which memory must not change`,
    );
  const config = parseRunConfig({
    model: options.model,
    adapter: options.adapter,
    threshold: 0,
    prefixCaching: false,
  });
  const architecture = await loadArchitecture(config.model, await nodePlatform.openModel(config.model));
  const adapter = await useAdapter(config.adapter);
  const cluster = await EngineCluster.start(
    nodePlatform,
    clusterOptions(config, architecture, adapter.software),
  );
  try {
    const conversations = Math.ceil(options.rounds / TURNS_EACH);
    const wanted = [FIRST_MARK, 100, 500, 1000].filter((turn) => turn < options.rounds);
    const marks: Mark[] = [];
    let turn = 0;
    let pulledTokens = 0;
    for (const conversation of makeConversations({ ...SIZES, conversations }, architecture.vocabSize, 1)) {
      for await (const pulled of converse(cluster, conversation)) {
        pulledTokens += pulled;
        turn++;
        if (wanted.includes(turn) || turn === options.rounds) marks.push(await mark(cluster, turn));
        if (turn === options.rounds) break;
      }
      process.stderr.write(`\r${turn} of ${options.rounds} turns`);
    }
    const faults = changes(marks);
    if (pulledTokens === 0) faults.push('nothing was pulled back');
    report(
      options,
      [
        '',
        `${formatCount(turn)} turns of ${config.model} on ${cluster.info.adapter.name}, ${formatCount(pulledTokens)} tokens pulled back`,
        ...table(marks),
        faults.length === 0
          ? `no fault: GPU and shared memory are those after turn ${FIRST_MARK}${marks.length > 2 ? ', and what lives in JavaScript does not grow' : '; too few turns to tell whether what lives in JavaScript grows'}`
          : faults.join('\n'),
      ],
      { adapter: cluster.info.adapter, model: config.model, turns: turn, pulledTokens, marks, faults },
    );
    if (faults.length > 0) process.exitCode = 1;
  } finally {
    await cluster.close();
  }
});

/** Tokens that each turn pulled back from D. */
async function* converse(cluster: EngineCluster, { id, turns, outputTokens }: TokenConversation) {
  const sampling = { maxTokens: outputTokens, ignoreEos: true };
  let history: number[] = [];
  for (const fresh of turns) {
    const promptTokenIds = [...history, ...fresh];
    for await (const { final } of cluster.generate({ conversationId: id, promptTokenIds, sampling })) {
      if (!final) continue;
      history = [...promptTokenIds, ...final.outputTokenIds];
      yield final.prompt.pulledTokens;
    }
  }
  await cluster.endConversation(id);
}

async function mark(cluster: EngineCluster, turn: number): Promise<Mark> {
  const stats = await cluster.stats();
  const [prefillGpu, decodeGpu] = stats.map(({ memory }) => memory.gpu) as [number, number];
  const shared = sumOf(stats, ({ memory }) => memory.shared);
  return { turn, prefillGpu, decodeGpu, shared, live: await liveMemory() };
}

/** What differs from the first mark, and growth of JavaScript memory; one sentence each. */
function changes([first, ...later]: readonly Mark[]): string[] {
  const kinds = {
    prefillGpu: "P's GPU memory",
    decodeGpu: "D's GPU memory",
    shared: 'shared memory',
  } as const;
  const settled = later[0];
  const end = later.at(-1);
  const grown =
    settled && end && end.live > MOST_GROWTH * settled.live
      ? [
          `live memory was ${settled.live} bytes after turn ${settled.turn}, and ${end.live} after turn ${end.turn}`,
        ]
      : [];
  const changed = later.flatMap((mark) =>
    Object.entries(kinds).flatMap(([key, name]) => {
      const [before, now] = [first![key as keyof typeof kinds], mark[key as keyof typeof kinds]];
      if (before === now) return [];
      return [`${name} was ${before} bytes after turn ${first!.turn}, and ${now} after turn ${mark.turn}`];
    }),
  );
  return [...changed, ...grown];
}

function table(marks: readonly Mark[]): string[] {
  const columns = right('turn', 'P on GPU', 'D on GPU', 'shared', 'live in JS');
  const rows = marks.map(({ turn, prefillGpu, decodeGpu, shared, live }) => [
    formatCount(turn),
    ...[prefillGpu, decodeGpu, shared, live].map(formatBytes),
  ]);
  return renderTable(columns, rows, plainStyle);
}
