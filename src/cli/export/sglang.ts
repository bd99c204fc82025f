/** SGLang: one launch command per engine, and one per gateway. Separate rolesets have separate gateways. */
import type { SglangParameters } from '../../router/policies/sglang/sglang.ts';
import { commandText } from '../vllm/shell.ts';
import { comment, type ExportFile } from './files.ts';
import {
  type ClusterPlan,
  lostAutoscaler,
  type PlannedRole,
  type PlannedRoleset,
  pooled,
  rolesetNotes,
  withBothRoles,
} from './plan.ts';

const GATEWAY_PORT = 30_000;
const FIRST_ENGINE_PORT = 30_100;
const FIRST_BOOTSTRAP_PORT = 8998;
/** Metrics port of the first gateway (its default); each gateway opens one. */
const FIRST_METRICS_PORT = 29_000;

/** Policies that SGLang's gateway also has, with its names. */
const SAME: Readonly<Record<string, string>> = {
  'round-robin': 'round_robin',
  random: 'random',
  'power-of-two': 'power_of_two',
};

export function sglangFiles(plan: ClusterPlan): ExportFile[] {
  const groups = withBothRoles(plan.replicaMode ? plan.rolesets : [pooled(plan.rolesets)], 'SGLang');
  const launched = { engines: 0 };
  const lines = groups.flatMap((roleset, i) => groupLines(plan, roleset, i, launched));
  const known = plan.routing.name === 'sglang' || plan.routing.name in SAME;
  const remarks = [
    "For SGLang and its gateway (pip install sglang sglang-router), on one machine: one terminal each. On several machines, replace localhost with each engine's address.",
    ...plan.notes.filter((note) => !note.includes('bidirectional_kv_xfer')),
    ...(plan.notes.some((note) => note.includes('bidirectional_kv_xfer'))
      ? ["Pulling D's KV back is not possible: SGLang only hands KV over from P to D."]
      : []),
    'kv_recompute_threshold, leases and TTLs exist only in vLLM: SGLang hands over through its bootstrap server.',
    ...(plan.vllmOnly.length > 0 ? [`${plan.vllmOnly.join(', ')}: only for vLLM, not exported.`] : []),
    `Requests without sampling parameters use those in the model's files, while kvferry uses ${JSON.stringify(plan.sampling)}: set them in the requests.`,
    ...(groups.some(({ roles }) => roles.decode?.engines.some(({ prefixCaching }) => prefixCaching))
      ? [
          'A prefix cache on D (--disaggregation-decode-enable-radix-cache, since May 2026) is experimental in SGLang.',
        ]
      : []),
    ...lostAutoscaler(plan),
    ...rolesetNotes(plan, groups.length, 'gateway per roleset', 'SGLang'),
    ...(plan.rolesets.some(({ roles }) => roles.both)
      ? ['Engines that do both are omitted: a gateway with --pd-disaggregation supports only P and D.']
      : []),
    ...(known
      ? []
      : [`Routing policy ${plan.routing.name} does not exist in the gateway; this export uses its own.`]),
  ];
  return [{ name: 'sglang.sh', remarks, content: { kind: 'shell', lines } }];
}

function groupLines(
  plan: ClusterPlan,
  { name, roles }: PlannedRoleset,
  gateway: number,
  launched: { engines: number },
): string[] {
  const urls: Record<'prefill' | 'decode', { url: string; bootstrap: number }[]> = {
    prefill: [],
    decode: [],
  };
  const engines = (['prefill', 'decode'] as const).flatMap((role) =>
    (roles[role]?.engines ?? []).map((engine) => {
      const place = launched.engines++;
      const port = FIRST_ENGINE_PORT + place;
      const bootstrap = FIRST_BOOTSTRAP_PORT + place;
      urls[role].push({ url: `http://localhost:${port}`, bootstrap });
      const argv = engineCommand(plan, role, engine, port, bootstrap);
      return [
        comment(`${engine.name} of ${name}`),
        commandText({ CUDA_VISIBLE_DEVICES: String(place) }, argv),
        '',
      ];
    }),
  );
  return [
    ...engines.flat(),
    comment(`gateway of ${name}`),
    commandText({}, gatewayCommand(plan, urls, gateway)),
    '',
  ];
}

function engineCommand(
  plan: ClusterPlan,
  role: 'prefill' | 'decode',
  { blocks, prefixCaching }: PlannedRole['engines'][number],
  port: number,
  bootstrap: number,
): string[] {
  return [
    ...['python', '-m', 'sglang.launch_server', '--model-path', plan.model],
    ...['--served-model-name', plan.servedName, '--host', '0.0.0.0', '--port', String(port)],
    ...['--disaggregation-mode', role, '--disaggregation-transfer-backend', 'nixl'],
    ...(role === 'prefill' ? ['--disaggregation-bootstrap-port', String(bootstrap)] : []),
    ...['--page-size', String(plan.blockSize), '--context-length', String(plan.maxModelLen)],
    ...['--max-running-requests', String(plan.maxNumSeqs), '--dtype', plan.dtype],
    ...['--random-seed', String(plan.seed)],
    ...(plan.maxNumBatchedTokens === null
      ? []
      : ['--chunked-prefill-size', String(plan.maxNumBatchedTokens)]),
    ...(blocks === null ? [] : ['--max-total-tokens', String(blocks * plan.blockSize)]),
    ...(prefixCaching ? cachingOption(role) : ['--disable-radix-cache']),
  ];
}

/** SGLang's D has a prefix cache only if asked for. */
const cachingOption = (role: 'prefill' | 'decode'): string[] =>
  role === 'decode' ? ['--disaggregation-decode-enable-radix-cache'] : [];

function gatewayCommand(
  plan: ClusterPlan,
  urls: Readonly<Record<'prefill' | 'decode', readonly { url: string; bootstrap: number }[]>>,
  gateway: number,
): string[] {
  const own = plan.parameters<SglangParameters>('sglang');
  const same = SAME[plan.routing.name];
  const prefillPolicy = same ?? own.prefillPolicy;
  const decodePolicy = same ?? own.decodePolicy;
  // The gateway takes whole numbers of requests and seconds. More than 1.5 requests are more than 1.
  const cacheAware = [
    ...['--cache-threshold', String(own.cacheThreshold)],
    ...['--balance-abs-threshold', String(Math.floor(own.balanceAbsThreshold))],
    ...['--balance-rel-threshold', String(own.balanceRelThreshold)],
    ...['--eviction-interval-secs', String(Math.ceil(own.evictionIntervalSecs))],
    ...['--max-tree-size', String(own.maxTreeSize)],
  ];
  return [
    ...['python', '-m', 'sglang_router.launch_router', '--pd-disaggregation'],
    ...['--port', String(GATEWAY_PORT + gateway), '--prometheus-port', String(FIRST_METRICS_PORT + gateway)],
    ...urls.prefill.flatMap(({ url, bootstrap }) => ['--prefill', url, String(bootstrap)]),
    ...urls.decode.flatMap(({ url }) => ['--decode', url]),
    ...['--prefill-policy', prefillPolicy, '--decode-policy', decodePolicy],
    ...(prefillPolicy === 'cache_aware' ? cacheAware : []),
    ...(prefillPolicy === 'bucket'
      ? ['--bucket-adjust-interval-secs', String(Math.ceil(own.bucketAdjustIntervalSecs))]
      : []),
  ];
}
