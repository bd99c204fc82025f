/** `kvferry bench --endpoint URL`: the same workloads, clients and tables against a server. One mode: the server's. */
import { percentages } from '../../config/bench-schema.ts';
import { type RunConfig, reportedSettings } from '../../config/run.ts';
import { ConfigError, RequestError } from '../../errors.ts';
import { mergeErrors, type ServedRound, serveConversations } from '../../lab/multiturn/clients.ts';
import { EndpointTarget, firstModel } from '../../lab/multiturn/endpoint-target.ts';
import { mainExperiment, workloadAndPlan } from '../../lab/multiturn/report.ts';
import type { SessionResult } from '../../lab/multiturn/session.ts';
import { loadWorkload, type Workload } from '../../lab/multiturn/workload.ts';
import type { BenchReport } from '../../measure/bench-report.ts';
import { type MeasuredRequest, summariseMode } from '../../measure/bench-summary.ts';
import { REPORT_VERSION } from '../../measure/report-head.ts';
import type { Vocabulary } from '../../workload/types.ts';
import { wordVocabulary } from '../../workload/words.ts';
import type { CommandContext } from '../deps.ts';
import { formatSeconds, plural } from '../format.ts';
import { createProgress } from '../progress.ts';
import { budgetMs, checkCounts, SERVERS_MODEL, serveOptions } from './settings.ts';

const SERVER = 'server';

/** Throws ConfigError before anything is sent, RequestError when there is no such server. */
export async function benchEndpoint(
  config: RunConfig,
  { deps, signal }: CommandContext,
): Promise<BenchReport> {
  const url = endpointUrl((config.endpoint ?? config.url)!);
  const begunMs = deps.now();
  const tokenizer = config.tokenizer === null ? null : await deps.backend.tokenizer(config.tokenizer);
  if (config.tokenIds && !tokenizer)
    throw new ConfigError('--token-ids needs the ids of a vocabulary: give --tokenizer PRESET or DIR');
  const vocabulary: Vocabulary = tokenizer ?? wordVocabulary;
  const workload = await loadWorkload(config, deps, vocabulary, !config.tokenIds);
  checkCounts(config, workload.conversations, workload.source);
  const apiKey = deps.environment('OPENAI_API_KEY');
  const model = config.model === SERVERS_MODEL ? await firstModel(url, apiKey, fetch) : config.model;
  const target = new EndpointTarget({
    url,
    model,
    apiKey,
    sendConversationId: config.sendConversationId,
    tokenIds: config.tokenIds,
    tokenizer,
    temperature: config.temperature,
    seed: config.seed,
    timeoutMs: config.requestTimeoutSec * 1000,
    now: deps.now,
    fetch,
  });

  const budget = budgetMs(config);
  const { served, incomplete } = await serveRounds(target, workload, config, {
    deps,
    signal,
    timeMs: budget === null ? null : Math.max(0, budget - (deps.now() - begunMs)),
  });
  const errors = mergeErrors(served);
  const requests = served.flatMap((each) => each.requests);
  if (requests.length === 0 && errors.size > 0) {
    const [[message, count]] = errors as unknown as [[string, number]];
    throw new RequestError(`not one request was answered; ${plural(count, 'time')}: ${message}`);
  }
  const mode = summariseMode(requests, {
    mode: SERVER,
    label: SERVER,
    threshold: null,
    runtimeMs: served.reduce((sum, each) => sum + each.runtimeMs, 0),
    errors,
    blockBytes: null,
    heldForP: null,
    heldForD: null,
    preemptions: null,
    firstUseCompilations: null,
    warmupPercentages: percentages(config.warmupPercentages)!,
  });
  const experiments: BenchReport['experiments'] = {
    [SERVER]: {
      title: 'as the client sees it',
      prefix_caching: null,
      p_blocks: null,
      d_blocks: null,
      rounds: served.length,
      modes: mode ? { [SERVER]: mode } : {},
      comparison: null,
      comparisons: {},
      published: null,
    },
  };
  const session: Pick<SessionResult, 'conversations' | 'notes' | 'rounds'> = {
    conversations: workload.conversations,
    notes: tokenizer
      ? []
      : ["Without --tokenizer a word stands for a token; counts are the server's where it tells them."],
    rounds: new Map(),
  };
  const parts = workloadAndPlan(config, workload, session, deps.now() - begunMs, []);
  return {
    kvferry: deps.version,
    kind: 'bench',
    schema_version: REPORT_VERSION,
    created: deps.today(),
    machine: deps.machine(),
    adapter: { name: 'of the server', backend: 'unknown', software: false, features: [] },
    complete: incomplete === null,
    incomplete_reason: incomplete,
    target: {
      kind: 'endpoint',
      url,
      model,
      block_bytes: null,
      kv_bytes_per_token: null,
      parameters: null,
      link: null,
    },
    config: { ...reportedSettings(config) },
    ...parts,
    plan: { ...parts.plan, rounds: served.length },
    recorder_overhead_percent: null,
    experiments,
    ...mainExperiment(experiments),
    integrity: null,
  };
}

interface ServedRounds {
  served: ServedRound[];
  incomplete: string | null;
}

/** All rounds, or what was served until the time was over or Ctrl-C came: whole rounds, or a part of the first. */
async function serveRounds(
  target: EndpointTarget,
  { conversations }: Workload,
  config: RunConfig,
  { deps, signal, timeMs }: CommandContext & { timeMs: number | null },
): Promise<ServedRounds> {
  const options = serveOptions(config, deps);
  const rounds = config.rounds ?? 1;
  const total = conversations.reduce((sum, { turns }) => sum + turns.length, 0);
  const progress = createProgress(deps);
  const time = new AbortController();
  const timer = timeMs === null ? null : setTimeout(() => time.abort(), timeMs);
  const served: ServedRound[] = [];
  let part: MeasuredRequest[] = [];
  let begunMs = deps.now();
  try {
    for (let round = 1; round <= rounds; round++) {
      part = [];
      begunMs = deps.now();
      progress.begin(`round ${round} of ${rounds}`, total);
      const done = await serveConversations(target, conversations, {
        ...options,
        maxActive: Math.min(options.maxActive, conversations.length),
        round,
        signal: AbortSignal.any([signal, time.signal]),
        onRequest(request) {
          part.push(request);
          const left = ((total - part.length) * (deps.now() - begunMs)) / part.length;
          progress.update(
            part.length,
            `${plural(part.length, 'request')}, about ${formatSeconds(left)} left`,
          );
        },
      });
      served.push(done);
      progress.end();
      const took = formatSeconds(done.runtimeMs);
      progress.line(`round ${round} of ${rounds}: ${plural(done.requests.length, 'request')} in ${took}`);
    }
    return { served, incomplete: null };
  } catch (error) {
    if (!signal.aborted && !time.signal.aborted) throw error;
    const incomplete = signal.aborted
      ? 'interrupted'
      : `the budget ended in round ${served.length + 1} of ${rounds}`;
    if (served.length === 0)
      served.push({ requests: part, errors: new Map(), runtimeMs: deps.now() - begunMs });
    return { served, incomplete };
  } finally {
    if (timer) clearTimeout(timer);
    progress.end();
  }
}

/** `http://host:port/`, with or without /v1 behind it, as the part before /v1. Throws ConfigError. */
export function endpointUrl(given: string): string {
  let url: URL;
  try {
    url = new URL(given.includes('://') ? given : `http://${given}`);
  } catch {
    throw new ConfigError(`--endpoint is '${given}': wanted a URL, such as http://localhost:8000`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new ConfigError(`--endpoint is '${given}': wanted a URL that begins with http:// or https://`);
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '').replace(/\/v1$/, '');
}
