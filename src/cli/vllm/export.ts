/** `kvferry export vllm`: the same experiment as commands for a vLLM cluster, and what vLLM cannot do. */
import { NO_PEERS, readsFromPeers } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import {
  type FieldGroup,
  fieldMeta,
  isUnusual,
  optionName,
  type RunConfig,
  type RunKey,
  reportedSettings,
  runKeys,
} from '../../config/run.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { plural } from '../../measure/format.ts';
import { sumOf } from '../../sum.ts';
import type { CliDeps } from '../deps.ts';
import { WIDTH, wrap } from '../output/format.ts';
import { connectorNotes } from './connector-notes.ts';
import { carriedOfStore, connectorsOf, engineCommands, proxyCommand, type VllmCommand } from './engines.ts';
import { commandText, writeFileText } from './shell.ts';
import { vllmWorkload } from './workload.ts';

export interface VllmExport {
  modes: readonly { mode: Mode; commands: readonly VllmCommand[] }[];
  file: { name: string; content: string };
  benchmark: VllmCommand;
  notes: readonly string[];
  /** Active settings without a counterpart in vLLM. */
  not_exported: readonly { option: string; value: unknown; reason: string }[];
}

const NO_COUNTERPART = 'vLLM has no such setting';

// biome-ignore format: a table
const OWN_KEYS = [
  'autotune', 'decodeDriverThreads', 'arithmetic', 'handover', 'budget', 'experiments', 'sloTtft', 'sloTpot', 'faultEndpoint',
  'writeTimeout',
] as const satisfies readonly RunKey[];

/** Reasons for settings that are not exported. Other non-default settings that are not exported are listed too. */
const REASONS: Partial<Record<RunKey, string>> = {
  ...Object.fromEntries(OWN_KEYS.map((key) => [key, NO_COUNTERPART])),
  link: "vLLM's transfers run at the machines' own speed",
  adapter: 'vLLM uses the GPU that CUDA_VISIBLE_DEVICES names',
  kvDtype: "vLLM keeps KV in the model's dtype, or in fp8",
  layout: "vLLM's attention backend decides it",
  maxQueue: "vLLM's queue has no limit",
  routing: "vLLM's proxy routes round robin",
  routingConfig: "vLLM's proxy routes round robin",
  routingModule: "vLLM's proxy routes round robin",
  signalAge: "vLLM's proxy uses no signals",
  modeOfFleet: "vLLM's proxy pairs any P with any D",
  adminPort: "vLLM has its metrics and controls on the engines' ports",
  adminHost: "vLLM has its metrics and controls on the engines' ports",
  adminOnClientPorts: 'vLLM always does this',
  allowedHosts: 'vLLM accepts any host name',
  corsOrigin: 'vLLM has --allowed-origins for the engines, not for the proxy',
};

/** Reasons by group, for settings without their own. */
const GROUP_REASONS: Partial<Record<FieldGroup, string>> = {
  scaling: "vLLM's proxy keeps the engines that it was started with",
};

/** Settings exported by engines.ts and workload.ts, or meaningless outside kvferry. */
// biome-ignore format: a table
const EXPORTED: ReadonlySet<RunKey> = new Set<RunKey>([
  'model', 'blockSize', 'threshold', 'ttl', 'lease', 'prefixCaching', 'pBlocks', 'dBlocks', 'kvTransferConfig',
  'loadFailurePolicy', 'maxNumBatchedTokens', 'maxNumSeqs', 'maxModelLen', 'weightDtype', 'seed',
  'temperature', 'topK', 'topP', 'maxTokens', 'mode', 'conversation', 'turns', 'systemTokens', 'userTokens',
  'outputTokens', 'conversations', 'concurrency', 'inputFile', 'preset', 'scale', 'numClients',
  'maxActiveConversations', 'maxNumRequests', 'maxTurns', 'requestRate', 'conversationSampling', 'warmupStep',
  'warmupPercentages', 'limitMinTokens', 'limitMaxTokens', 'earlyStop',
  'allFullKv', 'port', 'prefillPort', 'decodePort', 'host', 'servedModelName', 'apiKey', 'adminKey', 'streamingKvParams',
  'logFormat', 'kvCacheMetrics', 'kvCacheMetricsSample',
  'accessLog', 'grace', 'prefill', 'decode', 'fleet',
]);
/** Exported in the settings of NixlConnector, if that is in use. */
const OF_PEERS: ReadonlySet<RunKey> = new Set<RunKey>(['threshold', 'ttl', 'lease']);
const CARRIED_GROUPS = new Set([
  'machine',
  'fleet',
  'routing',
  'scaling',
  'cluster',
  'store',
  'sampling',
  'modes',
  'workload',
  'bench',
  'slo',
  'serving',
]);

/** Throws ConfigError. */
export async function vllmExport(
  config: RunConfig,
  options: ClusterOptions,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<VllmExport> {
  const workload = await vllmWorkload(config, options.maxModelLen, deps);
  const served = config.mode.filter((mode) => mode !== 'decode-local');
  const modes = served.map((mode) => {
    const engines = engineCommands(config, options, mode);
    return { mode, commands: mode === 'monolithic' ? engines : [...engines, proxyCommand(config)] };
  });
  return {
    modes,
    file: { name: workload.file, content: workload.content },
    benchmark: workload.command,
    notes: [...notes(config, served), ...workload.notes],
    not_exported: notExported(config),
  };
}

/** Notes about parts of a fleet file that vLLM's proxy, which pairs any P with any D, does not support. */
function fleetNotes({ fleet }: RunConfig): string[] {
  if (!fleet) return [];
  const { rolesets, links, sameNode, acrossNodes } = fleet;
  const both = sumOf(rolesets, (roleset) => roleset.both.length);
  const bounded = rolesets.some(
    ({ promptTokens }) => promptTokens && promptTokens.min + promptTokens.max > 0,
  );
  return [
    ...(both > 0
      ? [`Omitted: ${plural(both, 'engine')} for both roles; vLLM's proxy supports only P and D.`]
      : []),
    ...(bounded ? ["Prompt lengths by roleset: vLLM's proxy has no such bounds."] : []),
    ...(links.length > 0 || sameNode || acrossNodes
      ? ["Modelled links between engines are not exported: vLLM's transfers run at the machines' own speed."]
      : []),
  ];
}

function notes(config: RunConfig, modes: readonly Mode[]): string[] {
  const found = [
    "On several machines, replace localhost and VLLM_NIXL_SIDE_CHANNEL_HOST with each engine's address.",
    ...fleetNotes(config),
    ...connectorNotes(config),
  ];
  if (modes.includes('bidirectional') && readsFromPeers(config)) {
    found.push(
      'Bidirectional transfer needs vLLM 0.21 or newer. The proxy learns what D holds from the last chunk of a stream, which vLLM sends only with PR 40186 applied.',
    );
  }
  if (config.apiKey !== null) {
    found.push(
      "The API key is not printed: pass it to the engines as VLLM_API_KEY, and to the proxy and the benchmark's clients as OPENAI_API_KEY.",
    );
  }
  if (config.model === 'recall') {
    found.push('models/recall is a directory in kvferry: run vLLM from there, or give its full path.');
  }
  if (config.pBlocks === null || config.dBlocks === null) {
    found.push(
      'Without --p-blocks and --d-blocks, vLLM makes its pools as large as the GPU allows, so nothing is evicted.',
    );
  }
  return found;
}

function notExported(config: RunConfig): VllmExport['not_exported'] {
  const exported = new Set([...EXPORTED, ...carriedOfStore(config), 'tokenCheck']);
  const peers = readsFromPeers(config);
  if (!peers) for (const key of OF_PEERS) exported.delete(key);
  const ours = runKeys.filter((key) => !exported.has(key) && CARRIED_GROUPS.has(fieldMeta(key).group));
  const changed = ours.filter((key) => isUnusual(key, config));
  const shown = reportedSettings(config);
  const groupReasons = { ...GROUP_REASONS, store: storeReason(config) };
  const found = changed.map((key) => ({
    option: optionName(key),
    value: shown[key] as unknown,
    reason:
      (OF_PEERS.has(key) ? NO_PEERS : REASONS[key]) ??
      groupReasons[fieldMeta(key).group] ??
      'it is not exported',
  }));
  if (config.tokenCheck && peers) {
    const reason = 'vLLM pulls without comparing tokens, as --no-token-check does';
    found.push({ option: optionName('tokenCheck'), value: true, reason });
  }
  if (config.mode.includes('decode-local')) {
    found.push({ option: '--mode', value: 'decode-local', reason: 'vLLM has no proxy for it' });
  }
  return found;
}

/** Where vLLM's engines take the settings of their store from. */
function storeReason(config: RunConfig): string {
  const { offloading } = connectorsOf(config);
  if (!offloading)
    return "vLLM's stores are connectors: name one in --kv-transfer-config, such as OffloadingConnector with cpu_bytes_to_use";
  const { name } = offloading;
  return name === 'OffloadingConnector'
    ? `vLLM's ${name} has no such setting`
    : `${name} reads it from the environment (see the notes)`;
}

/** The export as a shell script; comments say what runs where. */
export function vllmText(plan: VllmExport): string {
  const comment = (text: string) => wrap(text, WIDTH - 2).map((line) => `# ${line}`);
  const lines: string[] = [];
  for (const { mode, commands } of plan.modes) {
    lines.push(`# ==== ${mode}: one terminal each`, '');
    for (const { what, env, argv } of commands) lines.push(...comment(what), commandText(env, argv), '');
  }
  const { file, benchmark } = plan;
  lines.push('# ==== the workload, the same for every mode', '', writeFileText(file.name, file.content), '');
  lines.push(...comment(benchmark.what), commandText(benchmark.env, benchmark.argv), '');
  if (plan.notes.length > 0)
    lines.push('# ==== notes', ...plan.notes.flatMap((note) => comment(`- ${note}`)));
  if (plan.not_exported.length > 0) {
    lines.push('', '# ==== settings that are not exported');
    for (const { option, value, reason } of plan.not_exported) {
      lines.push(...comment(`- ${option} (${JSON.stringify(value)}): ${reason}`));
    }
  }
  return `${lines.join('\n')}\n`;
}
