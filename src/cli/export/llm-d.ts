/** llm-d: values of its modelservice chart (P and D pods), and the router's configuration with a profile for each. */
import type { LlmDParameters } from '../../router/policies/llm-d/config.ts';
import { plural } from '../format.ts';
import { ENGINE_PORT, IMAGES_REMARK, nixlEnvironment, oneGpu, SIDE_CHANNEL_PORT } from './containers.ts';
import type { ExportFile } from './files.ts';
import {
  type ClusterPlan,
  lostAutoscaler,
  lostByPooling,
  type PlannedRole,
  type PlannedRoleset,
  pooled,
  roleOptions,
  transferOption,
  withBothRoles,
} from './plan.ts';

const IMAGE = 'ghcr.io/llm-d/llm-d-cuda:latest';
/** D's engine stands behind the sidecar that asks P. */
const BEHIND_SIDECAR = 8200;

export function llmDFiles(plan: ClusterPlan): ExportFile[] {
  const [roleset] = withBothRoles([pooled(plan.rolesets)], 'llm-d') as [PlannedRoleset];
  const { prefill, decode, both } = roleset.roles;
  const remarks = [
    'For llm-d-modelservice 0.4.12: helm install … -f values.yaml',
    IMAGES_REMARK,
    ...plan.notes,
    ...lostAutoscaler(plan),
    ...lostByPooling(plan, 'llm-d'),
    ...(both
      ? [
          `${plural(both.replicas, 'engine')} to do both: a D of llm-d prefills by itself what its decider leaves to it, so that is left out.`,
        ]
      : []),
  ];
  const values = {
    modelArtifacts: {
      uri: `hf://${plan.model}`,
      name: plan.servedName,
      labels: { 'llm-d.ai/inference-serving': 'true', 'llm-d.ai/model': plan.name },
      size: '100Gi',
    },
    routing: {
      servicePort: ENGINE_PORT,
      proxy: { enabled: true, connector: 'nixlv2', targetPort: BEHIND_SIDECAR, secure: false },
    },
    decode: podsOf(plan, decode!, BEHIND_SIDECAR),
    prefill: podsOf(plan, prefill!, ENGINE_PORT),
  };
  const { config, remarks: routing } = pickerConfig(plan);
  return [
    { name: 'values.yaml', remarks, content: { kind: 'yaml', documents: [values] } },
    { name: 'epp-config.yaml', remarks: routing, content: { kind: 'yaml', documents: [config] } },
  ];
}

function podsOf(plan: ClusterPlan, role: PlannedRole, port: number): object {
  return {
    create: true,
    replicas: role.replicas,
    containers: [
      {
        name: 'vllm',
        image: IMAGE,
        modelCommand: 'vllmServe',
        args: [...roleOptions(plan, role), ...transferOption(plan)],
        env: nixlEnvironment(),
        ports: [
          { containerPort: port, protocol: 'TCP' },
          { containerPort: SIDE_CHANNEL_PORT, protocol: 'TCP' },
        ],
        resources: oneGpu(),
        mountModelVolume: true,
      },
    ],
  };
}

/** What each scorer asks for before it: where prompts were sent, or what engines tell of their caches. */
const PRODUCERS: Readonly<Record<string, string>> = {
  'prefix-cache-scorer': 'approx-prefix-cache-producer',
  'precise-prefix-cache-scorer': 'precise-prefix-cache-producer',
};

function pickerConfig(plan: ClusterPlan): { config: object; remarks: string[] } {
  const { decider, nonCachedTokens, promptTokens, picker, prefill, decode } =
    plan.parameters<LlmDParameters>('llm-d');
  const weights = { prefill, decode };
  const scorers = [...new Set([...Object.keys(prefill), ...Object.keys(decode)])];
  // The decider asks how much of the prompt the chosen D has.
  const producers = new Set([
    'approx-prefix-cache-producer',
    ...scorers.flatMap((scorer) => PRODUCERS[scorer] ?? []),
  ]);
  const profile = (role: 'prefill' | 'decode') => ({
    name: role,
    plugins: [
      { pluginRef: `${role}-filter` },
      ...Object.entries(weights[role]).map(([pluginRef, weight]) => ({ pluginRef, weight })),
      { pluginRef: picker },
    ],
  });
  const config = {
    apiVersion: 'llm-d.ai/v1alpha1',
    kind: 'EndpointPickerConfig',
    plugins: [
      ...[...producers].map((type) => ({ type })),
      ...scorers.map((type) => ({ type })),
      { type: 'prefill-filter' },
      { type: 'decode-filter' },
      { type: picker },
      decider === 'prefix-based-pd-decider'
        ? { type: decider, parameters: { nonCachedTokens, ...(promptTokens > 0 && { promptTokens }) } }
        : { type: decider },
      { type: 'disagg-profile-handler', parameters: { deciders: { prefill: decider } } },
    ],
    schedulingProfiles: [profile('prefill'), profile('decode')],
  };
  const remarks = [
    'For llm-d-router of August 2026: the file that its endpoint picker gets with --config-file.',
    ...(plan.routing.name === 'llm-d'
      ? []
      : [`Routing policy ${plan.routing.name}: llm-d has other rules; it runs with its own here.`]),
    ...(scorers.includes('precise-prefix-cache-scorer')
      ? [
          'precise-prefix-cache-producer wants the addresses of the KV events: see its README for its parameters.',
        ]
      : []),
  ];
  return { config, remarks };
}
