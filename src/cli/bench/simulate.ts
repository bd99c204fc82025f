/**
 * Measures simulation speed: `npm run bench:simulate -- --trace FILE`, or `-- --requests 1000000`. Simulates a whole trace or
 * generated conversations on 4 P and 4 D (`--prefill`, `--decode`, `--block-size`) in one thread. Reports wall-clock time,
 * and processor time of all threads of the process: V8 compiles and collects garbage in others. Each tenth of the requests is
 * reported separately; with linear time and bounded memory they are equal. Rounds after the first (`--rounds`) run code that
 * V8 has compiled, like a command that simulates several fleets.
 */
import { setImmediate as nextTask } from 'node:timers/promises';
import { ConfigError } from '../../errors.ts';
import { plainFleet } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { SimulatedCluster } from '../../simulate/cluster.ts';
import { NAMED_COSTS } from '../../simulate/costs/published.ts';
import { Answers } from '../../simulate/engines/answers.ts';
import { serveTurns } from '../../simulate/load/trace-load.ts';
import { Collector } from '../../simulate/results/collector.ts';
import { verdictOf } from '../../simulate/results/verdict.ts';
import { SegmentedTokens } from '../../simulate/tokens/segmented-tokens.ts';
import { TraceFeed } from '../../workload/traces/feed.ts';
import { TraceTokens } from '../../workload/traces/tokens.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import { promisesRun } from '../simulate/promises-run.ts';
import { benchOptions, refuseGiven, report, runBench } from './options.ts';
import { generatedTurns, readTurns } from './simulate/turns.ts';

/** Tokens that each engine's pool holds. */
const POOL_TOKENS = 2_097_152;
const VOCABULARY = 128_000;
const KV_BYTES_PER_TOKEN = 100_000;
const PARTS = 10;
const MIB = 2 ** 20;

interface Part {
  requests: number;
  wall_s: number;
  cpu_s: number;
  simulated_s: number;
  rss_mib: number;
}

/** One simulation of all requests. */
interface Round extends Part {
  failed: number;
  verdict: string;
  peak_mib: number;
  parts: readonly Part[];
}

interface Load {
  requests: number;
  /** Begins the turns anew. */
  turns: () => Iterable<TraceTurn>;
}

/** The table of the requests' tenths. */
const HEADS = ['requests', 'simulated', 'requests/s', 'times real time', 'memory'] as const;
const WIDTHS = [9, 11, 15, 16, 9] as const;

await runBench(async () => {
  const options = await benchOptions(
    'bench:simulate',
    'requests simulated per second of wall-clock and processor time, and relative to real time',
    { example: '--requests 100000', rounds: 1 },
    {
      'trace FILE': "Mooncake's JSONL or any other trace",
      'limit N': 'use only its first N requests (all)',
      'requests N': 'instead of a trace: N generated requests',
      'prefill N': 'prefill engines (4)',
      'decode N': 'decode engines (4)',
      'block-size N': "tokens a block (128); Mooncake's traces name blocks of 512",
    },
  );
  const { own } = options;
  if (own.trace === undefined && own.requests === undefined)
    throw new ConfigError('--requests is not given: wanted a whole number, 1 or more, or --trace FILE');
  if (own.trace === undefined) refuseGiven(options, ['limit'], 'has no effect without --trace');
  else refuseGiven(options, ['requests'], 'cannot be combined with --trace');
  const [prefill, decode] = [positiveInteger(own, 'prefill', 4), positiveInteger(own, 'decode', 4)];
  const blockSize = positiveInteger(own, 'block-size', 128);
  const limit = own.limit === undefined ? null : positiveInteger(own, 'limit');
  const turns = own.trace === undefined ? null : await readTurns(own.trace, limit);
  const requests = turns?.length ?? positiveInteger(own, 'requests');
  const generated = () => generatedTurns(requests, { perSecond: 2 * prefill, seed: 0 });
  const load = { requests, turns: () => turns ?? generated() };
  const out = options.json === true ? process.stderr : process.stdout;
  out.write('By wall-clock time, in brackets by processor time\n');
  const rounds: Round[] = [];
  while (rounds.length < options.rounds) {
    out.write(`${partRow(HEADS)}\n`);
    rounds.push(
      await simulateAll(load, clusterOf({ prefill, decode, blockSize }), (line) => out.write(`${line}\n`)),
    );
  }
  const lines = rounds.map((round, index) => {
    const [rate, ratio] = speedsOf(round);
    const which = rounds.length > 1 ? `round ${index + 1}: ` : '';
    return (
      `${which}${round.requests} requests (${round.failed} failed) on ${prefill} P and ${decode} D in blocks of ${blockSize}, ${round.verdict}: ` +
      `${rate} requests per second, ${ratio} times real time, in ${round.wall_s.toFixed(1)} s (${round.cpu_s.toFixed(1)} s of processor time), peak ${round.peak_mib.toFixed(0)} MiB`
    );
  });
  report(options, lines, { prefill, decode, block_size: blockSize, rounds });
});

/** Simulates all turns once. `tell` prints a line. */
async function simulateAll(
  { requests, turns }: Load,
  cluster: SimulatedCluster,
  tell: (line: string) => void,
): Promise<Round> {
  const collector = new Collector();
  const tokens = new TraceTokens(VOCABULARY, 0);
  const feed = new TraceFeed(inOrder(turns()));
  const parts: Part[] = [];
  const begun = { cpu: process.cpuUsage(), wallMs: performance.now() };
  const soFar = (): Part => {
    const { user, system } = process.cpuUsage(begun.cpu);
    return {
      requests: collector.count,
      wall_s: (performance.now() - begun.wallMs) / 1000,
      cpu_s: (user + system) / 1e6,
      simulated_s: cluster.clock.now() / 1000,
      rss_mib: process.memoryUsage.rss() / MIB,
    };
  };
  const reportPart = (end: Part): void => {
    tell(partLine(end, parts.at(-1)));
    parts.push(end);
  };
  const work = serveTurns(cluster, feed, (segments) => SegmentedTokens.of(segments, tokens), collector);
  await cluster.run(work, async () => {
    if (collector.count < ((parts.length + 1) * requests) / PARTS) return;
    reportPart(soFar());
    await nextTask();
  });
  const end = soFar();
  if (parts.length < PARTS) reportPart(end);
  return {
    ...end,
    failed: collector.failed,
    verdict: verdictOf(collector).word,
    peak_mib: process.resourceUsage().maxRSS / 1024,
    parts,
  };
}

function positiveInteger(
  own: Readonly<Record<string, string | undefined>>,
  name: string,
  otherwise?: number,
): number {
  const value = Number(own[name] ?? otherwise);
  if (Number.isInteger(value) && value > 0) return value;
  throw new ConfigError(`--${name} is ${own[name]}: wanted a whole number, 1 or more`);
}

async function* inOrder<T>(all: Iterable<T>): AsyncGenerator<T> {
  yield* all;
}

interface Size {
  prefill: number;
  decode: number;
  blockSize: number;
}

function clusterOf({ prefill, decode, blockSize }: Size): SimulatedCluster {
  const role = { numBlocks: Math.ceil(POOL_TOKENS / blockSize), enablePrefixCaching: true };
  const nixl = {
    bidirectional: true,
    recomputeThreshold: 64,
    decoderTtlMs: 480_000,
    leaseMs: 30_000,
    enforceHandshakeCompat: true,
    tokenCheck: true,
  };
  const options: ClusterOptions = {
    ...{ model: 'none', weightSeed: 0, weightDtype: 'f16', kvDtype: 'f16', layout: 'contiguous' },
    ...{ mode: 'bidirectional', blockSize },
    prefill: { ...role, count: prefill },
    decode: { ...role, count: decode },
    fleet: plainFleet({ prefill, decode }),
    ...{ maxNumBatchedTokens: 8192, maxNumSeqs: 256, maxModelLen: 200_000 },
    connector: { name: 'NixlConnector', loadFailurePolicy: 'fail', nixl },
    ...{ handover: 'pull', link: null, checksum: false, keepLogits: false, poison: false, fault: null },
  };
  return new SimulatedCluster({
    ...{ options, costs: NAMED_COSTS['dynamo-mocker']!, answers: new Answers(8, VOCABULARY) },
    ...{ groups: [{ kind: 'full' }], blockBytes: blockSize * KV_BYTES_PER_TOKEN },
    ...{ sharing: 'fcfs', check: false, runs: true, nextTask: promisesRun },
  });
}

/** Figures since the previous part, or since the start. */
function partLine(end: Part, from = { requests: 0, wall_s: 0, cpu_s: 0, simulated_s: 0 }): string {
  const part = {
    requests: end.requests - from.requests,
    wall_s: Math.max(1e-3, end.wall_s - from.wall_s),
    cpu_s: Math.max(1e-3, end.cpu_s - from.cpu_s),
    simulated_s: end.simulated_s - from.simulated_s,
  };
  const cells = [String(end.requests), `${end.simulated_s.toFixed(0)} s`, ...speedsOf(part)];
  return partRow([...cells, `${end.rss_mib.toFixed(0)} MiB`]);
}

function partRow(cells: readonly string[]): string {
  return cells.map((cell, i) => cell.padStart(WIDTHS[i]!)).join('  ');
}

/** Requests a second, and times real time: by wall-clock time, and in brackets by processor time. */
function speedsOf({ requests, wall_s, cpu_s, simulated_s }: Omit<Part, 'rss_mib'>): string[] {
  const both = (count: number) => `${Math.round(count / wall_s)} (${Math.round(count / cpu_s)})`;
  return [both(requests), both(simulated_s)];
}
