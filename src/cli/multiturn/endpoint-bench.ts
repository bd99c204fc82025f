/** `kvferry bench --endpoint URL`: sets up the server target and its tokenizer, and shows progress. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { benchEndpoint, type EndpointWatcher } from '../../lab/multiturn/endpoint-bench.ts';
import { EndpointTarget, firstModel } from '../../lab/multiturn/endpoint-target.ts';
import { formatSeconds, plural } from '../../measure/format.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import { wordVocabulary } from '../../workload/words.ts';
import type { CommandContext } from '../deps.ts';
import { createProgress, type Progress } from '../output/progress.ts';
import { createTimeLeft } from '../output/time-left.ts';
import { checkCounts, SERVERS_MODEL } from './settings.ts';
import { loadWorkload } from './workload.ts';

/** Throws ConfigError before anything is sent, RequestError if the server cannot be reached. */
export async function benchServer(config: RunConfig, { deps, signal }: CommandContext): Promise<BenchReport> {
  const url = endpointUrl((config.endpoint ?? config.url)!);
  const begunMs = deps.now();
  const tokenizer = config.tokenizer === null ? null : await deps.backend.tokenizer(config.tokenizer);
  if (config.tokenIds && !tokenizer)
    throw new ConfigError('--token-ids needs a vocabulary: give --tokenizer PRESET or DIR');
  const workload = await loadWorkload(config, deps, tokenizer ?? wordVocabulary, !config.tokenIds);
  checkCounts(config, workload.conversations, workload.source);
  const apiKey = deps.environment('OPENAI_API_KEY');
  const timeoutMs = config.requestTimeoutSec * 1000;
  const model =
    config.model === SERVERS_MODEL
      ? await firstModel({ url, apiKey, timeoutMs, fetch }, signal)
      : config.model;
  const { sendConversationId, tokenIds, temperature, seed } = config;
  const target = new EndpointTarget({
    url,
    model,
    apiKey,
    sendConversationId,
    tokenIds,
    tokenizer,
    temperature,
    seed,
    timeoutMs,
    now: deps.now,
    fetch,
  });
  const progress = createProgress(deps);
  try {
    const bench = { config, workload, hasTokenizer: tokenizer !== null, begunMs, signal };
    return await benchEndpoint(target, bench, deps, watchRounds(progress, deps.now));
  } finally {
    progress.end();
  }
}

function watchRounds(progress: Progress, now: () => number): EndpointWatcher {
  let left = createTimeLeft(0, now);
  return {
    roundBegins(round, rounds, requests) {
      left = createTimeLeft(requests, now);
      progress.begin(`round ${round} of ${rounds}`, requests);
    },
    requestDone: (done) => progress.update(done, `${plural(done, 'request')}, ${left.after(done)}`),
    roundEnds(round, rounds, { requests, runtimeMs }) {
      progress.end();
      const took = formatSeconds(runtimeMs);
      progress.line(`round ${round} of ${rounds}: ${plural(requests.length, 'request')} in ${took}`);
    },
  };
}

/** What clients add to the base URL, and curl commands end with. */
const PATHS = /\/v1(\/models|(\/chat)?\/completions)?$/;

/** The base URL without a trailing slash or /v1. Throws ConfigError. */
function endpointUrl(given: string): string {
  let url: URL;
  try {
    url = new URL(given.includes('://') ? given : `http://${given}`);
  } catch {
    throw new ConfigError(`--endpoint is '${given}': wanted a URL, such as http://localhost:8000`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new ConfigError(`--endpoint is '${given}': wanted a URL that begins with http:// or https://`);
  if (url.username || url.password)
    throw new ConfigError(
      `--endpoint has a user name or a password: give ${url.origin}${url.pathname}, and the server's key in OPENAI_API_KEY`,
    );
  if (url.search || url.hash)
    throw new ConfigError(`--endpoint is '${given}': wanted a URL without ${url.search || url.hash}`);
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '').replace(PATHS, '');
}
