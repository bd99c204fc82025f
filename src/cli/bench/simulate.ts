/**
 * How fast a simulation is: `npm run bench:simulate -- --trace FILE`. A trace in full on 4 P and 4 D, one thread;
 * processor time counts, since others may use the machine.
 */
import { createReadStream } from 'node:fs';
import { ConfigError } from '../../errors.ts';
import { plainFleet } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { Collector } from '../../simulate/collector.ts';
import { NAMED_COSTS } from '../../simulate/costs/published.ts';
import { simulateOnce } from '../../simulate/run.ts';
import { BadLines } from '../../workload/traces/bad-lines.ts';
import { openTrace } from '../../workload/traces/read.ts';
import { TraceTokens } from '../../workload/traces/tokens.ts';
import { traceTurns } from '../../workload/traces/turns.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import { promisesRun } from '../simulate/promises-run.ts';
import { benchOptions } from './options.ts';

const BLOCK_SIZE = 128;
const VOCABULARY = 128_000;
const KV_BYTES_PER_TOKEN = 100_000;

const role = { count: 4, numBlocks: 16_384, enablePrefixCaching: true };
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
  ...{ mode: 'bidirectional', blockSize: BLOCK_SIZE, prefill: role, decode: role },
  fleet: plainFleet({ prefill: 4, decode: 4 }),
  ...{ maxNumBatchedTokens: 8192, maxNumSeqs: 256, maxModelLen: 200_000 },
  connector: { name: 'NixlConnector', loadFailurePolicy: 'fail', nixl },
  ...{ handover: 'pull', link: null, checksum: false, keepLogits: false, poison: false, fault: null },
};

const { own } = benchOptions(
  'bench:simulate',
  'requests simulated in a second of processor time, and how many times real time that is',
  { model: 'none', rounds: 1 },
  { 'trace FILE': "Mooncake's JSONL or any other trace", 'limit N': 'only the first so many requests (all)' },
);
const file = own.trace;
if (file === undefined) throw new ConfigError('no trace is named: wanted --trace FILE');
const limit = own.limit === undefined ? null : Number(own.limit);

async function read(): Promise<TraceTurn[]> {
  const bad = new BadLines(file!, false);
  const untimed = { perSecond: 1, thinkMs: 0, seed: 0 };
  const settings = { source: file!, format: null, traceBlockSize: null, limit, untimed, bad };
  const pieces = createReadStream(file!, 'utf8') as AsyncIterable<string>;
  const { traceBlockSize, requests } = await openTrace(pieces, {
    ...settings,
    countTokens: (text) => text.length / 4,
  });
  const scale = { traceBlockSize, lengthDivisor: 1, speedUp: 1 };
  const turns: TraceTurn[] = [];
  for await (const turn of traceTurns(requests, { scale, maxModelLen: null, bad })) turns.push(turn);
  return turns;
}

const collector = new Collector();
const load = { kind: 'trace', turns: await read(), tokens: new TraceTokens(VOCABULARY, 0) } as const;
const begunMs = performance.now();
const before = process.cpuUsage();
const { cluster } = await simulateOnce(
  { label: 'trace', options, load },
  {
    costs: NAMED_COSTS['dynamo-mocker']!,
    ...{
      groups: [{ kind: 'full' }],
      blockBytes: BLOCK_SIZE * KV_BYTES_PER_TOKEN,
    },
    ...{ sharing: 'fcfs', check: false, runs: true, tokenIds: [8, VOCABULARY], seed: 0, seeds: 1 },
    nextTask: promisesRun,
    slo: { ttftMs: null, tpotMs: null },
    signal: new AbortController().signal,
    onProgress() {},
  },
  0,
  collector,
);
const { user, system } = process.cpuUsage(before);
const cpuSeconds = (user + system) / 1e6;
const simulatedSeconds = cluster.clock.now() / 1000;
const rss = process.resourceUsage().maxRSS / 1024;
process.stdout.write(
  `${collector.count} requests, ${simulatedSeconds.toFixed(0)} s simulated, in ${cpuSeconds.toFixed(1)} s of processor time (${((performance.now() - begunMs) / 1000).toFixed(1)} s on the wall): ` +
    `${Math.round(collector.count / cpuSeconds)} requests a second, ${Math.round(simulatedSeconds / cpuSeconds)} times real time, ${rss.toFixed(0)} MiB at most\n`,
);
