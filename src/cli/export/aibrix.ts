/**
 * AIBrix: a StormService per kind of roleset (pooled: one, whose roles scale independently; replica: one replica per
 * roleset), PodAutoscalers, and the gateway's routing configuration as pod annotations.
 */
import { ConfigError } from '../../errors.ts';
import type { AibrixPdParameters } from '../../router/policies/aibrix-pd/config.ts';
import {
  ENGINE_IMAGE,
  ENGINE_PORT,
  IMAGES_REMARK,
  nixlEnvironment,
  oneGpu,
  SIDE_CHANNEL_PORT,
  serveCommand,
} from './containers.ts';
import type { ExportFile } from './files.ts';
import {
  type ClusterPlan,
  PLAN_ROLES,
  type PlannedRole,
  type PlannedRoleset,
  type PlanRole,
  pooled,
  roleOptions,
  unequalNotes,
} from './plan.ts';

/** Percentage of a full batch at which AIBrix's samples scale D. */
const BATCH_TARGET = 70;
/**
 * The metrics that AIBrix's samples scale by, under the names that its controller reads from vLLM. The names in the samples
 * do not exist there, and the controller takes missing metrics as 0.
 */
const metricOf = (role: 'prefill' | 'decode', { maxNumSeqs }: ClusterPlan) =>
  role === 'prefill'
    ? { targetMetric: 'num_requests_waiting', targetValue: '10' }
    : {
        targetMetric: 'num_requests_running',
        targetValue: String(Math.max(1, Math.round((BATCH_TARGET / 100) * maxNumSeqs))),
      };
/** Strategies by autoscaling rule. AIBrix refuses HPA for a role; APA is closest to HPA and to Dynamo's planner. */
const STRATEGIES = {
  'aibrix-apa': 'APA',
  'aibrix-kpa': 'KPA',
  'k8s-hpa': 'APA',
  'dynamo-sla': 'APA',
} as const;
/** Default upper bound of an autoscaler, as a multiple of the fleet's engines. */
const MOST_TIMES = 2;

interface Storm {
  name: string;
  roleset: PlannedRoleset;
  replicas: number;
}

const LABEL = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Throws ConfigError for a model name that is not a valid label. */
export function aibrixFiles(plan: ClusterPlan): ExportFile[] {
  if (!LABEL.test(plan.servedName))
    throw new ConfigError(
      `AIBrix finds models by label, and '${plan.servedName}' is not a valid label: give --served-model-name at most 63 letters, digits, '-', '_' and '.'`,
    );
  const storms = stormsOf(plan);
  const remarks = [
    'For AIBrix of August 2026: kubectl apply -f each file.',
    IMAGES_REMARK,
    ...plan.notes,
    ...plan.transferNotes,
    ...unequalNotes(plan.replicaMode ? plan.rolesets : [pooled(plan.rolesets)]),
    ...routingRemarks(plan),
    ...poolingRemarks(plan),
  ];
  return [
    {
      name: 'stormservice.yaml',
      remarks,
      content: { kind: 'yaml', documents: storms.map((storm) => stormService(plan, storm)) },
    },
    {
      name: 'podautoscaler.yaml',
      remarks: [
        ...scalingRemarks(plan),
        'AIBrix scales down to the lowest of its recent recommendations, so a longer window scales down more eagerly, not less.',
      ],
      content: { kind: 'yaml', documents: storms.flatMap((storm) => autoscalers(plan, storm)) },
    },
  ];
}

/** The StormServices. In AIBrix, P and D of a turn are always from the same roleset. */
function stormsOf({ name, rolesets, replicaMode }: ClusterPlan): Storm[] {
  if (!replicaMode) return [{ name, roleset: pooled(rolesets), replicas: 1 }];
  const kinds = new Map<string, PlannedRoleset[]>();
  for (const roleset of rolesets) {
    const kind = JSON.stringify([roleset.roles, roleset.promptTokens], (key, value) =>
      key === 'engines' ? undefined : value,
    );
    kinds.set(kind, [...(kinds.get(kind) ?? []), roleset]);
  }
  return [...kinds.values()].map((alike, i) => ({
    name: kinds.size === 1 ? name : `${name}-${i}`,
    roleset: alike[0]!,
    replicas: alike.length,
  }));
}

function stormService(plan: ClusterPlan, { name, roleset, replicas }: Storm): object {
  const labels = { app: name };
  return {
    apiVersion: 'orchestration.aibrix.ai/v1alpha1',
    kind: 'StormService',
    metadata: { name },
    spec: {
      replicas,
      updateStrategy: { type: plan.replicaMode ? 'RollingUpdate' : 'InPlaceUpdate' },
      stateful: true,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          roles: PLAN_ROLES.flatMap((role) => {
            const planned = roleset.roles[role];
            return planned ? [roleOf(plan, roleset, role, planned)] : [];
          }),
        },
      },
    },
  };
}

function roleOf(plan: ClusterPlan, roleset: PlannedRoleset, role: PlanRole, planned: PlannedRole): object {
  // A pod with any other name than prefill or decode does both.
  const name = role === 'both' ? 'combined' : role;
  const options = ['--served-model-name', plan.servedName, ...roleOptions(plan, planned)];
  const serving = role === 'both' ? options : [...options, ...plan.transfer[role]];
  return {
    name,
    replicas: planned.replicas,
    stateful: true,
    template: {
      metadata: {
        labels: {
          'model.aibrix.ai/name': plan.servedName,
          'model.aibrix.ai/port': String(ENGINE_PORT),
          'model.aibrix.ai/engine': 'vllm',
          // The agent that forwards what vLLM's NixlConnector returns; the one called nixl is for Neuron.
          'model.aibrix.ai/kv-connector-type': 'shfs',
        },
        annotations: { 'model.aibrix.ai/config': JSON.stringify(gatewayConfig(plan, roleset, role)) },
      },
      spec: {
        containers: [
          {
            name,
            image: ENGINE_IMAGE,
            command: ['sh', '-c'],
            args: [`exec ${serveCommand(plan.model, ENGINE_PORT, serving)}\n`],
            env: nixlEnvironment(),
            ports: [
              { containerPort: ENGINE_PORT, name: 'metrics' },
              { containerPort: SIDE_CHANNEL_PORT, name: 'nixl' },
            ],
            resources: oneGpu(),
          },
        ],
      },
    },
  };
}

/** The pd router's profile, as a pod annotation. */
function gatewayConfig(plan: ClusterPlan, { promptTokens, roles }: PlannedRoleset, role: PlanRole): object {
  const { prefillScorePolicy, decodeScorePolicy } = scorePolicies(plan);
  const bounded = promptTokens.min > 0 || promptTokens.max !== null;
  const routingConfig = {
    ...(bounded && {
      promptLenBucketMinLength: promptTokens.min,
      // 0: no upper bound.
      promptLenBucketMaxLength: promptTokens.max ?? 0,
    }),
    ...(roles.both && { combined: role === 'both' }),
    prefillScorePolicy,
    decodeScorePolicy,
  };
  return { defaultProfile: 'pd', profiles: { pd: { routingStrategy: 'pd', routingConfig } } };
}

function scorePolicies(
  plan: ClusterPlan,
): Pick<AibrixPdParameters, 'prefillScorePolicy' | 'decodeScorePolicy'> {
  const parameters = plan.parameters<AibrixPdParameters>('aibrix-pd');
  if (plan.routing.name === 'least-request')
    return { prefillScorePolicy: 'least_request', decodeScorePolicy: 'least_request' };
  return parameters;
}

/** Parameters that AIBrix reads from its gateway's environment. */
const ENVIRONMENT: Partial<Record<keyof AibrixPdParameters, string>> = {
  prefillLoadImbalanceMinSpread: 'AIBRIX_PREFILL_LOAD_IMBALANCE_MIN_SPREAD',
  decodeLoadImbalanceMinSpread: 'AIBRIX_DECODE_LOAD_IMBALANCE_MIN_SPREAD',
  decodeThroughputImbalanceMinSpread: 'AIBRIX_DECODE_THROUGHPUT_IMBALANCE_MIN_SPREAD',
  decodeScoreRatioThreshold: 'AIBRIX_DECODE_SCORE_RATIO_THRESHOLD',
  decodeLbWeightRunning: 'AIBRIX_DECODE_LB_WEIGHT_RUNNING',
  decodeLbWeightThroughput: 'AIBRIX_DECODE_LB_WEIGHT_THROUGHPUT',
  prefixCacheStandardDeviationFactor: 'AIBRIX_PREFIX_CACHE_STANDARD_DEVIATION_FACTOR',
  prefixCacheBlockSize: 'AIBRIX_PREFIX_CACHE_BLOCK_SIZE',
  prefixCacheBlockNumber: 'AIBRIX_PREFIX_CACHE_BLOCK_NUMBER',
  prefixCacheEvictionDurationMins: 'AIBRIX_PREFIX_CACHE_EVICTION_DURATION_MINS',
};

/** Of these AIBrix reads whole numbers only, and keeps its default if there is a fraction. */
const WHOLE: readonly (keyof AibrixPdParameters)[] = [
  'prefillLoadImbalanceMinSpread',
  'prefixCacheStandardDeviationFactor',
  'prefixCacheEvictionDurationMins',
];

/** Needed if rolesets have prompt length bounds. */
const BUCKETING = 'AIBRIX_PROMPT_LENGTH_BUCKETING=true';

function routingRemarks(plan: ClusterPlan): string[] {
  const { name } = plan.routing;
  const given = plan.parameters<AibrixPdParameters>('aibrix-pd');
  const environment = Object.entries(ENVIRONMENT).map(
    ([key, variable]) => `${variable}=${given[key as keyof AibrixPdParameters]}`,
  );
  const bounded =
    plan.replicaMode && plan.rolesets.some(({ promptTokens: { min, max } }) => min > 0 || max !== null);
  return [
    ...(name === 'aibrix-pd' || name === 'least-request'
      ? []
      : [`Routing policy ${name} does not exist in AIBrix's pd router; this export uses its own.`]),
    `Gateway environment for these parameters: ${[...environment, ...(bounded ? [BUCKETING] : [])].join(', ')}.`,
    ...WHOLE.filter((key) => !Number.isInteger(given[key])).map(
      (key) =>
        `${ENVIRONMENT[key]}: AIBrix reads a whole number, and takes its default instead of ${given[key]}.`,
    ),
    ...(given.prefixIndex === 'kv-events'
      ? ['prefixIndex kv-events is not exported: AIBrix keeps its own index.']
      : []),
  ];
}

function poolingRemarks({ replicaMode, rolesets }: ClusterPlan): string[] {
  if (replicaMode || rolesets.length === 1) return [];
  return [
    'Pooled: AIBrix pairs P and D only within a roleset, so all engines form one roleset, and prompt length bounds by roleset are omitted. --mode-of-fleet replica keeps rolesets separate.',
  ];
}

function scalingRemarks({ autoscale, replicaMode }: ClusterPlan): string[] {
  const waiting = "10 waiting requests per P, as in AIBrix's samples";
  const target = replicaMode
    ? `Target: ${waiting}`
    : `Targets: ${waiting}, and running requests at ${BATCH_TARGET}% of --max-num-seqs per D`;
  const own = `bounds from the fleet's number of engines to ${MOST_TIMES} times as many`;
  if (!autoscale) return [`${target}; ${own}.`];
  const { rule } = autoscale;
  return [
    replicaMode
      ? `${target}; ${own}. The bounds of --autoscale are per role, and rolesets scale as a whole here, so they are omitted.`
      : `${target}; bounds from --autoscale.`,
    `--autoscale ${rule} is exported as ${STRATEGIES[rule]}${rule === 'k8s-hpa' ? ': AIBrix refuses HPA for a role' : ''}.`,
  ];
}

function autoscalers(plan: ClusterPlan, { name, roleset, replicas }: Storm): object[] {
  const scaler = (
    role: 'prefill' | 'decode',
    mode: 'pool' | 'replica',
    own: string,
    [least, most]: readonly [number, number],
  ) => ({
    apiVersion: 'autoscaling.aibrix.ai/v1alpha1',
    kind: 'PodAutoscaler',
    metadata: { name: own, annotations: { 'autoscaling.aibrix.ai/storm-service-mode': mode } },
    spec: {
      scaleTargetRef: { apiVersion: 'orchestration.aibrix.ai/v1alpha1', kind: 'StormService', name },
      subTargetSelector: { roleName: role },
      minReplicas: least,
      maxReplicas: most,
      scalingStrategy: STRATEGIES[plan.autoscale?.rule ?? 'aibrix-apa'],
      metricsSources: [
        {
          metricSourceType: 'pod',
          protocolType: 'http',
          port: String(ENGINE_PORT),
          path: '/metrics',
          ...metricOf(role, plan),
        },
      ],
    },
  });
  if (plan.replicaMode)
    return roleset.roles.prefill
      ? [scaler('prefill', 'replica', name, [replicas, MOST_TIMES * replicas])]
      : [];
  return (['prefill', 'decode'] as const).flatMap((role) => {
    const planned = roleset.roles[role];
    const { replicas: now } = planned ?? { replicas: 0 };
    const bounds = plan.autoscale?.bounds[role] ?? ([now, MOST_TIMES * now] as const);
    return planned ? [scaler(role, 'pool', `${name}-${role}`, bounds)] : [];
  });
}
