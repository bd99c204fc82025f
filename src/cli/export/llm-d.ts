/** llm-d: values for its modelservice chart (P and D pods), and the router's configuration with a profile for each. */

import { plural } from '../../measure/format.ts';
import type { LlmDParameters } from '../../router/policies/llm-d/config.ts';
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
  unequalNotes,
  withBothRoles,
} from './plan.ts';

const IMAGE = 'ghcr.io/llm-d/llm-d-cuda:latest';
/** Port of D's engine behind the sidecar, which sends prefills to P. */
const BEHIND_SIDECAR = 8200;
/** Port of an engine's KV events for the router. */
const EVENTS_PORT = 5557;
/** URL of the tokenising vLLM, expected in the picker's pod. */
const RENDER_URL = 'http://localhost:8000';
const PRECISE = 'precise-prefix-cache-scorer';

export function llmDFiles(plan: ClusterPlan): ExportFile[] {
  const [roleset] = withBothRoles([pooled(plan.rolesets)], 'llm-d') as [PlannedRoleset];
  const { prefill, decode, both } = roleset.roles;
  const remarks = [
    'For llm-d-modelservice 0.4.12: helm install … -f values.yaml. llm-d 0.7 and newer deploy engines by Kustomize and keep this chart for older guides: there, put the arguments, environment and replicas below into the patches of guides/pd-disaggregation.',
    IMAGES_REMARK,
    ...plan.notes,
    ...plan.transferNotes,
    ...unequalNotes([roleset]),
    ...lostAutoscaler(plan),
    ...lostByPooling(plan, 'llm-d'),
    ...(both
      ? [
          `Omitted: ${plural(both.replicas, 'engine')} for both roles; in llm-d, D itself prefills what its decider leaves to it.`,
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
    decode: podsOf(plan, 'decode', decode!, BEHIND_SIDECAR),
    prefill: podsOf(plan, 'prefill', prefill!, ENGINE_PORT),
  };
  const { config, remarks: routing } = pickerConfig(plan);
  return [
    { name: 'values.yaml', remarks, content: { kind: 'yaml', documents: [values] } },
    { name: 'epp-config.yaml', remarks: routing, content: { kind: 'yaml', documents: [config] } },
  ];
}

function podsOf(plan: ClusterPlan, role: 'prefill' | 'decode', planned: PlannedRole, port: number): object {
  const usesKvEvents = PRECISE in plan.parameters<LlmDParameters>('llm-d')[role];
  return {
    create: true,
    replicas: planned.replicas,
    containers: [
      {
        name: 'vllm',
        image: IMAGE,
        modelCommand: 'vllmServe',
        args: [
          ...roleOptions(plan, planned),
          ...plan.transfer[role],
          ...(usesKvEvents ? ['--kv-events-config', JSON.stringify(kvEvents(plan))] : []),
        ],
        env: [
          ...nixlEnvironment(),
          ...(usesKvEvents
            ? [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }]
            : []),
        ],
        ports: [
          { containerPort: port, protocol: 'TCP' },
          { containerPort: SIDE_CHANNEL_PORT, protocol: 'TCP' },
          ...(usesKvEvents ? [{ containerPort: EVENTS_PORT, protocol: 'TCP' }] : []),
        ],
        resources: oneGpu(),
        mountModelVolume: true,
      },
    ],
  };
}

/** vLLM's --kv-events-config. The router reads address and model from the topic; Kubernetes fills in the address. */
const kvEvents = ({ servedName }: ClusterPlan) => ({
  enable_kv_cache_events: true,
  publisher: 'zmq',
  endpoint: `tcp://*:${EVENTS_PORT}`,
  topic: `kv@$(POD_IP):${ENGINE_PORT}@${servedName}`,
});

/**
 * Plugins that index the engines' KV events by the model's tokens, for every engine that appears. The precise scorer is
 * configured as the general prefix-cache scorer with this producer.
 */
const PRECISE_PRODUCER = 'precise-prefix-cache-producer';
const preciseProducers = ({ model, blockSize }: ClusterPlan) => [
  { type: 'token-producer', parameters: { modelName: model, vllm: { url: RENDER_URL } } },
  { type: 'endpoint-notification-source' },
  { type: PRECISE_PRODUCER, parameters: { tokenProcessorConfig: { blockSizeTokens: blockSize } } },
];
const scorerPlugin = (type: string) =>
  type === PRECISE
    ? {
        type: 'prefix-cache-scorer',
        name: PRECISE,
        parameters: { prefixMatchInfoProducerName: PRECISE_PRODUCER },
      }
    : { type };
const DATA_LAYER = {
  sources: [{ pluginRef: 'endpoint-notification-source', extractors: [{ pluginRef: PRECISE_PRODUCER }] }],
};

function pickerConfig(plan: ClusterPlan): { config: object; remarks: string[] } {
  const { decider, nonCachedTokens, promptTokens, picker, prefill, decode } =
    plan.parameters<LlmDParameters>('llm-d');
  const weights = { prefill, decode };
  const scorers = [...new Set([...Object.keys(prefill), ...Object.keys(decode)])];
  const precise = scorers.includes(PRECISE);
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
      // The decider uses it to estimate how much of the prompt the chosen D has.
      { type: 'approx-prefix-cache-producer' },
      ...(precise ? preciseProducers(plan) : []),
      ...scorers.map(scorerPlugin),
      { type: 'prefill-filter' },
      { type: 'decode-filter' },
      { type: picker },
      decider === 'prefix-based-pd-decider'
        ? { type: decider, parameters: { nonCachedTokens, ...(promptTokens > 0 && { promptTokens }) } }
        : { type: decider },
      { type: 'disagg-profile-handler', parameters: { deciders: { prefill: decider } } },
    ],
    schedulingProfiles: [profile('prefill'), profile('decode')],
    ...(precise && { dataLayer: DATA_LAYER }),
  };
  const remarks = [
    'For llm-d-router of August 2026: pass this file to its endpoint picker with --config-file.',
    ...(plan.routing.name === 'llm-d'
      ? []
      : [`Routing policy ${plan.routing.name} does not exist in llm-d; this export uses llm-d's own.`]),
    ...(precise
      ? [
          `token-producer gets a prompt's tokens from a vLLM at ${RENDER_URL}: run 'vllm launch render ${plan.model} --port 8000' as an additional container of the picker, or change the address.`,
        ]
      : []),
  ];
  return { config, remarks };
}
