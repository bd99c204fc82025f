/** NVIDIA Dynamo: a DynamoGraphDeployment with a routing frontend and prefill and decode workers. */
import type { DynamoParameters } from '../../router/policies/dynamo.ts';
import { ENGINE_PORT, IMAGES_REMARK, oneGpu } from './containers.ts';
import type { ExportFile } from './files.ts';
import {
  type ClusterPlan,
  lostAutoscaler,
  type PlannedRole,
  type PlannedRoleset,
  pooled,
  roleOptions,
  rolesetNotes,
  unequalNotes,
  withBothRoles,
} from './plan.ts';

/** Conditional disaggregation, and D's KV-cache events that it needs, are not in 1.3. */
const IMAGE = 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.0';

/** Policies that Dynamo's frontend also has, with its names. */
const ROUTER_MODES: Readonly<Record<string, string>> = {
  dynamo: 'kv',
  'round-robin': 'round-robin',
  random: 'random',
  'power-of-two': 'power-of-two',
  'least-request': 'least-loaded',
};

export function dynamoFiles(plan: ClusterPlan): ExportFile[] {
  // Each graph has its own frontend, so separate rolesets become separate graphs.
  const graphs = withBothRoles(plan.replicaMode ? plan.rolesets : [pooled(plan.rolesets)], 'Dynamo');
  const name = (i: number): string => (graphs.length === 1 ? plan.name : `${plan.name}-${i}`);
  const mode = ROUTER_MODES[plan.routing.name];
  const remarks = [
    'For the Dynamo operator with nvidia.com/v1beta1, 1.4 to 1.6: kubectl apply -f this file.',
    IMAGES_REMARK,
    ...plan.notes,
    ...plan.transferNotes,
    ...unequalNotes(graphs),
    ...lostAutoscaler(plan),
    ...rolesetNotes(plan, graphs.length, 'graph per roleset, each with its own frontend', 'Dynamo'),
    ...(mode === undefined
      ? [`Routing policy ${plan.routing.name} does not exist in Dynamo; this export uses its KV router.`]
      : []),
    ...(mode === undefined || mode === 'kv'
      ? [
          "The router's weights and temperature in the environment are deprecated in Dynamo 1.6 and to be removed in 1.7: there, write them into the file that DYN_ROUTER_POLICY_CONFIG names.",
        ]
      : []),
    ...conditionalRemarks(plan),
    ...(plan.rolesets.some(({ roles }) => roles.both)
      ? ['Engines that do both are omitted: a graph with prefill workers sends every prompt to those first.']
      : []),
  ];
  const documents = graphs.map((roleset, i) => graphOf(plan, name(i), roleset));
  return [{ name: 'dynamographdeployment.yaml', remarks, content: { kind: 'yaml', documents } }];
}

function graphOf(plan: ClusterPlan, name: string, { roles }: PlannedRoleset): object {
  const workers = (['prefill', 'decode'] as const).flatMap((role) => {
    const planned = roles[role];
    return planned ? [worker(plan, role, planned)] : [];
  });
  return {
    apiVersion: 'nvidia.com/v1beta1',
    kind: 'DynamoGraphDeployment',
    metadata: { name },
    spec: {
      backendFramework: 'vllm',
      components: [
        {
          name: 'Frontend',
          type: 'frontend',
          replicas: 1,
          podTemplate: {
            spec: { containers: [{ name: 'main', image: IMAGE, env: routerEnvironment(plan) }] },
          },
        },
        ...workers,
      ],
    },
  };
}

function routerEnvironment(plan: ClusterPlan): { name: string; value: string }[] {
  const mode = ROUTER_MODES[plan.routing.name] ?? 'kv';
  const { prefillLoadScale, overlapCredit, temperature } = plan.parameters<DynamoParameters>('dynamo');
  const settings: Record<string, string | number> = {
    DYN_ROUTER_MODE: mode,
    DYN_HTTP_PORT: ENGINE_PORT,
    ...(mode === 'kv' && {
      DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT: overlapCredit,
      DYN_ROUTER_PREFILL_LOAD_SCALE: prefillLoadScale,
      DYN_ROUTER_TEMPERATURE: temperature,
    }),
    ...conditionalDisaggregation(plan),
  };
  return Object.entries(settings).map(([name, value]) => ({ name, value: String(value) }));
}

/** Conditional disaggregation, when D prefills alone; only the policy that depends on lengths is exported. */
function conditionalDisaggregation(plan: ClusterPlan): Record<string, string> {
  const { conditionalDisagg, effectiveIsl, effectiveIslRatio, decodeBusyUsage } =
    plan.parameters<DynamoParameters>('dynamo');
  if (plan.routing.name !== 'dynamo' || conditionalDisagg !== 'isl_bounding') return {};
  const config = {
    policy: conditionalDisagg,
    eff_isl_threshold: Math.ceil(effectiveIsl),
    eff_isl_ratio_threshold: Math.min(1, effectiveIslRatio),
    ...(decodeBusyUsage !== null && { decode_busy_threshold: decodeBusyUsage }),
  };
  return {
    DYN_ROUTER_CONDITIONAL_DISAGG: 'true',
    DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG: JSON.stringify(config),
  };
}

function conditionalRemarks(plan: ClusterPlan): string[] {
  const { conditionalDisagg } = plan.parameters<DynamoParameters>('dynamo');
  if (plan.routing.name !== 'dynamo' || conditionalDisagg === null) return [];
  return [
    conditionalDisagg === 'isl_bounding'
      ? 'Conditional disaggregation (D itself prefills short prompts) is experimental in Dynamo, and off unless the environment turns it on.'
      : `conditionalDisagg ${conditionalDisagg} is omitted, so P prefills everything: Dynamo defines a busy P by a share of --max-num-batched-tokens (prefill_busy_threshold in DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG), kvferry by tokens.`,
  ];
}

/** KV events that tell the KV router what an engine has cached. */
const KV_EVENTS = {
  publisher: 'zmq',
  topic: 'kv-events',
  endpoint: 'tcp://*:20080',
  enable_kv_cache_events: true,
};

function worker(plan: ClusterPlan, role: 'prefill' | 'decode', planned: PlannedRole): object {
  const named = [
    '--model',
    plan.model,
    '--served-model-name',
    plan.servedName,
    '--disaggregation-mode',
    role,
  ];
  // D's cache counts only if D may prefill itself: what it lacks of a prompt decides that.
  const routedByCache =
    role === 'prefill' || 'DYN_ROUTER_CONDITIONAL_DISAGG' in conditionalDisaggregation(plan);
  const events = routedByCache ? ['--kv-events-config', JSON.stringify(KV_EVENTS)] : [];
  return {
    name: role === 'prefill' ? 'VllmPrefillWorker' : 'VllmDecodeWorker',
    type: role,
    replicas: planned.replicas,
    // Lets any autoscaler (HPA, KEDA, the planner) set the replicas.
    scalingAdapter: {},
    podTemplate: {
      spec: {
        containers: [
          {
            name: 'main',
            image: IMAGE,
            command: ['python3', '-m', 'dynamo.vllm'],
            args: [...named, ...roleOptions(plan, planned), ...plan.transfer[role], ...events],
            envFrom: [{ secretRef: { name: 'hf-token-secret' } }],
            resources: oneGpu(),
          },
        ],
      },
    },
  };
}
