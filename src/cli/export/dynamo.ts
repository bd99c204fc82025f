/** NVIDIA Dynamo: a DynamoGraphDeployment with a frontend that routes, prefill and decode workers. */
import { ENGINE_PORT, IMAGES_REMARK } from './containers.ts';
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

const IMAGE = 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.0';

/** Of src/router/policies/dynamo.ts. */
interface DynamoParameters {
  prefillLoadScale: number;
  overlapCredit: number;
  temperature: number;
  conditionalDisagg: string | null;
  effectiveIsl: number;
  effectiveIslRatio: number;
  decodeBusyUsage: number | null;
}

/** Policies that its frontend has too, by its names. */
const ROUTER_MODES: Readonly<Record<string, string>> = {
  dynamo: 'kv',
  'round-robin': 'round-robin',
  random: 'random',
  'power-of-two': 'power-of-two',
  'least-request': 'least-loaded',
};

export function dynamoFiles(plan: ClusterPlan): ExportFile[] {
  // A graph has its own frontend: rolesets that stay apart are graphs of their own.
  const graphs = withBothRoles(plan.replicaMode ? plan.rolesets : [pooled(plan.rolesets)], 'Dynamo');
  const name = (i: number): string => (graphs.length === 1 ? plan.name : `${plan.name}-${i}`);
  const mode = ROUTER_MODES[plan.routing.name];
  const remarks = [
    'For the Dynamo operator with nvidia.com/v1beta1 (1.3): kubectl apply -f this file.',
    IMAGES_REMARK,
    ...plan.notes,
    ...lostAutoscaler(plan),
    ...(plan.replicaMode
      ? graphs.length > 1
        ? [
            'A graph for each roleset, each with a frontend: what is before them shares requests out among them; bounds of prompt lengths are not said here.',
          ]
        : []
      : lostByPooling(plan, 'Dynamo')),
    ...(mode === undefined
      ? [`Routing policy ${plan.routing.name}: Dynamo has other rules; its KV router runs here.`]
      : []),
    ...conditionalRemarks(plan),
    ...(plan.rolesets.some(({ roles }) => roles.both)
      ? [
          'Engines that do both: a graph with prefill workers sends every prompt to them first; they are left out.',
        ]
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

/** When D prefills by itself: what follows from lengths alone. */
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
      ? 'Conditional disaggregation (D prefills what is short by itself) is experimental in Dynamo, and off unless the environment says so.'
      : `conditionalDisagg ${conditionalDisagg} is left out, and P prefills all: from which load on a P is busy is a share of --max-num-batched-tokens there (prefill_busy_threshold in DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG), and tokens here.`,
  ];
}

/** What the KV router is told of P's caches. */
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
  const events = role === 'prefill' ? ['--kv-events-config', JSON.stringify(KV_EVENTS)] : [];
  return {
    name: role === 'prefill' ? 'VllmPrefillWorker' : 'VllmDecodeWorker',
    type: role,
    replicas: planned.replicas,
    // Whatever autoscales (HPA, KEDA, the planner) may set the replicas.
    scalingAdapter: {},
    podTemplate: {
      spec: {
        containers: [
          {
            name: 'main',
            image: IMAGE,
            command: ['python3', '-m', 'dynamo.vllm'],
            args: [...named, ...roleOptions(plan, planned), ...transferOption(plan), ...events],
            envFrom: [{ secretRef: { name: 'hf-token-secret' } }],
            resources: { limits: { 'nvidia.com/gpu': '1' } },
          },
        ],
      },
    },
  };
}
