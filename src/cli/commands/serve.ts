/** `kvferry serve`: serves P, D and the router over HTTP until a signal. */

import type { RunConfig, RunKey } from '../../config/run.ts';
import { namesIn } from '../../config/serve-schema.ts';
import { ConfigError } from '../../errors.ts';
import { autoscaleChoice } from '../../fleet/autoscale-choice.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { fleetOf } from '../../fleet/seats.ts';
import { createLog, type ExplainingLog } from '../../server/http/log.ts';
import type { RunningServer, ServerOptions } from '../../server/serve.ts';
import { type CommandContext, EXIT, type ExitCode } from '../deps.ts';
import type { CommandInput, CommandSpec } from '../options/arguments.ts';
import { preparePullPolicy } from '../options/pull-policy.ts';
import { wantOneRouting } from '../options/settings.ts';
import { refuseUnused, unusedByServe } from '../options/unused-options.ts';
import { textOutput, writeJson } from '../output/json-option.ts';
import { createProgress, type Progress } from '../output/progress.ts';
import {
  failedTurnRoutingFields,
  failedTurnRoutingLines,
  routingFields,
  turnOf,
  turnRoutingLines,
} from '../output/routing-table.ts';
import { scalingFields, scalingLines } from '../output/scaling-table.ts';
import { plainStyle } from '../output/table.ts';
import { tellStart } from '../start-cluster.ts';

export const serveSpec: CommandSpec = {
  usage: 'serve',
  run: serve,
  description:
    "Serve P, D and their router over HTTP, with OpenAI's and vLLM's APIs, until Ctrl-C or SIGTERM.",
  groups: [
    'machine',
    'serving',
    'scaling',
    'fleet',
    'cluster',
    'store',
    'routing',
    'explaining',
    'costs',
    'sampling',
    'modes',
    'general',
  ],
  endsBySignal: true,
  defaultNotes: { mode: 'bidirectional' },
  examples: [
    'kvferry serve --model nano',
    'kvferry serve --model nano --pull-policy cost-aware',
    'kvferry serve --model nano --fault-endpoint',
    'kvferry serve --model nano --autoscale aibrix-apa --max-decode 3 --explain-scaling',
    'kvferry serve --model nano --prefill-port 8100 --decode-port 8200 --port 8000',
    'kvferry serve --model ./SmolLM2-135M-Instruct --served-model-name smollm2 --max-queue 32 --log-format json',
  ],
};

async function serve(
  config: RunConfig,
  { deps, signal }: CommandContext,
  { given }: CommandInput,
): Promise<ExitCode> {
  refuseUnused(given, unusedByServe(config));
  wantOneMode(config, given);
  const { backend } = deps;
  const serving = { ...serverOptions(config, deps), autoscale: autoscaleChoice(config) };
  const architecture = await backend.architecture(config.model);
  await deps.servers.check(serving, fleetOf(config).seats);
  const adapter = await backend.useAdapter(config.adapter);
  wantOneRouting(config);
  const options = clusterOptions(config, architecture, adapter.software);
  // Deliberately flipped bits must be detected, not used in an answer.
  options.checksum = config.faultEndpoint;
  const pullPolicy = await preparePullPolicy(config, { deps, signal });
  const progress = config.logFormat === 'json' ? notedBy(serving.log) : createProgress(deps);
  await tellStart(options, adapter.name, progress, deps);
  const server = await deps.servers.start(options, serving, async (cluster) => {
    await pullPolicy.apply(cluster, progress);
  });
  try {
    signal.throwIfAborted();
    textOutput(config, deps).write(banner(server, serving));
    // For programs that start the server: its URLs, once it is ready.
    await writeJson({ model: server.modelName, urls: server.urls, engines: server.engineUrls }, config, deps);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  } finally {
    await server.stop(1000 * config.grace);
  }
  return EXIT.good;
}

/** Progress as log lines, so that stderr contains nothing but JSON for log readers. */
const notedBy = ({ note }: ServerOptions['log']): Progress => ({
  line: note,
  begin: note,
  update() {},
  end() {},
});

/** A config file shared with `run` may list several modes; the last one is served. Throws ConfigError for several in --mode. */
function wantOneMode({ mode }: RunConfig, given: ReadonlySet<RunKey>): void {
  if (given.has('mode') && mode.length > 1)
    throw new ConfigError(
      `--mode names ${mode.length} modes (${mode.join(', ')}): a server runs one mode; give one`,
    );
}

/** The option's value, else the environment variable's; an empty variable counts as unset. */
const keyOf = (given: string | null, variable: string, deps: CommandContext['deps']): string | null =>
  given ?? (deps.environment(variable) || null);

function serverOptions(config: RunConfig, deps: CommandContext['deps']): ServerOptions {
  const { temperature, topK, topP, maxTokens, seed } = config;
  const log = createLog(config.logFormat, (line) => deps.stderr.write(`${line}\n`));
  return {
    ports: {
      prefill: config.prefillPort,
      decode: config.decodePort,
      router: config.port,
      admin: config.adminPort,
    },
    host: config.host,
    adminHost: config.adminHost,
    apiKey: keyOf(config.apiKey, 'KVFERRY_API_KEY', deps),
    adminKey: keyOf(config.adminKey, 'KVFERRY_ADMIN_KEY', deps),
    adminOnClientPorts: config.adminOnClientPorts,
    servedModelNames: namesIn(config.servedModelName),
    maxQueue: config.maxQueue,
    corsOrigins: namesIn(config.corsOrigin),
    allowedHosts: namesIn(config.allowedHosts),
    streamingKvParams: config.streamingKvParams === 'on',
    faultEndpoint: config.faultEndpoint,
    writeTimeoutMs: 1000 * config.writeTimeout,
    defaults: { temperature, topK, topP, maxTokens, seed },
    version: deps.version,
    log: config.accessLog ? log : { ...log, access: () => {}, ended: () => {} },
    onDecision: (event) => explain(event, config, log),
  };
}

function explain(
  event: Parameters<NonNullable<ServerOptions['onDecision']>>[0],
  { explainRouting, explainScaling }: RunConfig,
  log: ExplainingLog,
): void {
  if (event.kind === 'scaling') {
    const { decision } = event;
    if (explainScaling)
      log.explained('scaling', scalingFields(decision), () => scalingLines(decision, plainStyle));
  } else if (!explainRouting) return;
  else if (event.kind === 'routing of a failed turn') {
    const { turn } = event;
    const lines = () => failedTurnRoutingLines(turn, plainStyle);
    log.explained('routing', failedTurnRoutingFields(turn), lines);
  } else if (event.result.routed) {
    const turn = turnOf(event.result);
    log.explained('routing', routingFields(turn), () => turnRoutingLines(turn, plainStyle));
  }
}

function banner(
  { urls, engineUrls, modelName }: RunningServer,
  { apiKey, faultEndpoint }: ServerOptions,
): string {
  const body = JSON.stringify({
    model: modelName,
    max_tokens: 32,
    messages: [{ role: 'user', content: 'Hello!' }],
  });
  const names = Object.keys(engineUrls)
    .map((name) => `/${name}`)
    .join(', ');
  const key = apiKey === null ? '' : " -H 'Authorization: Bearer '$KEY";
  const ports: (readonly [string, string])[] = [
    ['router', `${urls.router}   any OpenAI client: ${urls.router}/v1`],
    ...enginePorts(urls, engineUrls),
    ['admin', `${urls.admin}   operators: /fleet, and /router, ${names} with /metrics and /kv/query`],
    ...(faultEndpoint
      ? [
          [
            'faults',
            `${urls.admin}/faults   POST {"faults": [{"engine": "decode-0", "fault": "slow"}]}`,
          ] as const,
        ]
      : []),
  ];
  const width = Math.max(...ports.map(([name]) => name.length)) + 3;
  return [
    ...ports.map(([name, rest]) => `${name.padEnd(width)}${rest}`),
    '',
    `curl ${urls.router}/v1/chat/completions -H 'Content-Type: application/json'${key} \\`,
    `  -d '${body.replaceAll("'", "'\\''")}'`,
    '',
    'Press Ctrl-C to stop.',
    '',
  ].join('\n');
}

/** The URLs of one P and one D, or of each engine by its name. */
function enginePorts(
  { prefill, decode }: RunningServer['urls'],
  engineUrls: RunningServer['engineUrls'],
): [string, string][] {
  const all = Object.entries(engineUrls);
  const isPair = all.length === 2 && 'prefill-0' in engineUrls && 'decode-0' in engineUrls;
  if (!isPair) return all;
  return [
    ['P', `${prefill}   for your own proxy: --prefiller-port`],
    ['D', `${decode}   for your own proxy: --decoder-port`],
  ];
}
