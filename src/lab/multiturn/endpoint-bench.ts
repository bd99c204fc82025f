/** The benchmark on a server: the same workloads and clients, in one mode (the server's), as the client sees it. */
import { percentages } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { RequestError } from '../../errors.ts';
import { plural } from '../../measure/format.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import { summariseMode } from '../../measure/summaries/bench-summary.ts';
import { timerMs } from '../../platform/clock.ts';
import { sumOf } from '../../sum.ts';
import type { ReportSource } from '../run-report.ts';
import {
  countError,
  mergeErrors,
  requestsOf,
  runtimeOf,
  type ServedRound,
  serveConversations,
} from './clients.ts';
import type { EndpointTarget } from './endpoint-target.ts';
import { makeBenchReport, reportedWorkload, type Workload } from './report.ts';
import type { ServeOptions } from './rounds.ts';
import { budgetMs, serveOptions } from './settings.ts';

const SERVER = 'server';
const WORDS_FOR_TOKENS =
  "Without --tokenizer, a word stands for a token. Counts are the server's where it reports them.";

export interface EndpointBench {
  config: RunConfig;
  workload: Workload;
  /** false: words stand for tokens in the workload and the answers. */
  hasTokenizer: boolean;
  /** When the benchmark began, by `now`. */
  begunMs: number;
  signal: AbortSignal;
}

export interface EndpointWatcher {
  roundBegins(round: number, rounds: number, requests: number): void;
  /** `done`: requests answered so far in the round. */
  requestDone(done: number): void;
  roundEnds(round: number, rounds: number, served: ServedRound): void;
}

/** Throws RequestError if every request failed. When the signal aborts, the report has what was served. */
export async function benchEndpoint(
  target: EndpointTarget,
  bench: EndpointBench,
  world: ReportSource & Pick<ServeOptions, 'now' | 'sleep'>,
  watcher: EndpointWatcher,
): Promise<BenchReport> {
  const { config, workload, hasTokenizer, begunMs } = bench;
  const { served, completed, incomplete } = await serveRounds(target, bench, world, watcher);
  const errors = mergeErrors(served);
  const requests = served.flatMap((each) => each.requests);
  if (requests.length === 0 && errors.size > 0) {
    const [[message, count]] = errors as unknown as [[string, number]];
    throw new RequestError(`no request was answered; ${plural(count, 'time')}: ${message}`);
  }
  const mode = summariseMode(requests, {
    mode: SERVER,
    label: SERVER,
    threshold: null,
    runtimeMs: sumOf(served, (each) => each.runtimeMs),
    errors,
    blockBytes: null,
    heldForP: null,
    heldForD: null,
    peakKvBytes: null,
    preemptions: null,
    notPulled: null,
    firstUseCompilations: null,
    warmupPercentages: percentages(config.warmupPercentages)!,
  });
  const experiment = {
    title: 'as the client sees it',
    prefix_caching: null,
    p_blocks: null,
    d_blocks: null,
    rounds: completed,
    modes: mode ? { [SERVER]: mode } : {},
    comparison: null,
    comparisons: {},
    published: null,
  };
  return makeBenchReport(world, config, {
    adapter: { name: 'of the server', backend: 'unknown', software: false, features: [] },
    target: {
      kind: 'endpoint',
      url: target.url,
      model: target.model,
      block_bytes: null,
      kv_bytes_per_token: null,
      parameters: null,
      link: null,
    },
    workload: reportedWorkload(workload, workload.conversations, config),
    plan: {
      budget_ms: budgetMs(config),
      spent_ms: world.now() - begunMs,
      rounds: completed,
      notes: hasTokenizer ? [] : [WORDS_FOR_TOKENS],
    },
    experiments: { [SERVER]: experiment },
    incompleteReason: incomplete,
    integrity: null,
    recorderShare: null,
  });
}

/** Serves all rounds, or until the budget ends or the signal aborts: then whole rounds, or a part of the first. */
async function serveRounds(
  target: EndpointTarget,
  { config, workload: { conversations }, begunMs, signal }: EndpointBench,
  world: Pick<ServeOptions, 'now' | 'sleep'>,
  watcher: EndpointWatcher,
): Promise<{ served: ServedRound[]; completed: number; incomplete: string | null }> {
  const { now } = world;
  const options = serveOptions(config, world);
  const rounds = config.rounds ?? 1;
  const total = requestsOf(conversations, options);
  const budget = budgetMs(config);
  const time = new AbortController();
  const timer =
    budget === null ? null : setTimeout(() => time.abort(), timerMs(Math.max(0, begunMs + budget - now())));
  const served: ServedRound[] = [];
  let part: ServedRound = { requests: [], errors: new Map(), runtimeMs: 0 };
  try {
    for (let round = 1; round <= rounds; round++) {
      part = { requests: [], errors: new Map(), runtimeMs: 0 };
      watcher.roundBegins(round, rounds, total);
      const done = await serveConversations(target, conversations, {
        ...options,
        maxActive: Math.min(options.maxActive, conversations.length),
        round,
        signal: AbortSignal.any([signal, time.signal]),
        onRequest(request) {
          part.requests.push(request);
          watcher.requestDone(part.requests.length);
        },
        onFailure: (message) => countError(part.errors, message),
      });
      served.push(done);
      watcher.roundEnds(round, rounds, done);
    }
    return { served, completed: rounds, incomplete: null };
  } catch (error) {
    if (!signal.aborted && !time.signal.aborted) throw error;
    const completed = served.length;
    const incomplete = signal.aborted
      ? 'interrupted'
      : `the budget ended in round ${completed + 1} of ${rounds}`;
    if (completed === 0) served.push({ ...part, runtimeMs: runtimeOf(part.requests) });
    return { served, completed, incomplete };
  } finally {
    if (timer) clearTimeout(timer);
  }
}
