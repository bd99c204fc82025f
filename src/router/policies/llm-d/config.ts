/**
 * Parameters of llm-d: its own short ones by name, or an EndpointPickerConfig (the YAML as JSON) with plugins and one
 * profile each for prefill and decode.
 */
import { z } from 'zod';
import { parseParameters } from '../../../config/parameters.ts';
import { inRoutingConfig } from '../definition.ts';
import { LLM_D_SCORERS } from './scorers.ts';

const weights = () => z.partialRecord(z.enum(LLM_D_SCORERS), z.number().nonnegative());
/** What the simulator of llm-d's sister project uses as llm-d's defaults. */
const DEFAULT_WEIGHTS = {
  'precise-prefix-cache-scorer': 2,
  'queue-scorer': 1,
  'kv-cache-utilization-scorer': 1,
};

const DECIDERS = ['prefix-based-pd-decider', 'always-disagg-pd-decider'] as const;
const PICKERS = ['max-score-picker', 'weighted-random-picker'] as const;

export const llmDSchema = z.strictObject({
  decider: z.enum(DECIDERS).default('prefix-based-pd-decider'),
  /**
   * P prefills if D lacks at least this many tokens; 0: P never prefills. Shipped configurations have 16, llm-d's
   * code defaults to 0.
   */
  nonCachedTokens: z.number().int().nonnegative().default(16),
  /** Shorter prompts stay with D; 0: no such limit. */
  promptTokens: z.number().int().nonnegative().default(0),
  picker: z.enum(PICKERS).default('max-score-picker'),
  prefill: weights().default(DEFAULT_WEIGHTS),
  decode: weights().default(DEFAULT_WEIGHTS),
});
export type LlmDParameters = z.output<typeof llmDSchema>;

const PROFILE_FILTERS = [
  'prefill-filter',
  'decode-filter',
  'disagg-profile-handler',
  'pd-profile-handler',
  'by-label',
];

/** Plugins that supply scorers and deciders with facts. Accepted and ignored: here the router knows the facts. */
const FACTS = [
  'approx-prefix-cache-producer',
  'precise-prefix-cache-producer',
  'token-producer',
  'inflight-load-producer',
  'endpoint-notification-source',
  'metrics-data-source',
  'core-metrics-extractor',
];

/** Scorer parameters that are fixed to llm-d's defaults here; other values are refused. */
const FIXED: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'load-aware-scorer': { threshold: 128 },
  'token-load-scorer': { queueThresholdTokens: 4_194_304 },
  'active-request-scorer': { idleThreshold: 0, maxBusyScore: 1 },
  'prefix-cache-scorer': { matchLengthWeight: 0 },
};

const pickerConfigSchema = z.strictObject({
  apiVersion: z.string().optional(),
  kind: z.literal('EndpointPickerConfig'),
  plugins: z.array(
    z
      .strictObject({
        type: z.enum([...LLM_D_SCORERS, ...DECIDERS, ...PICKERS, ...PROFILE_FILTERS, ...FACTS]),
        name: z.string().optional(),
        parameters: z.record(z.string(), z.unknown()).optional(),
      })
      .superRefine(({ type, parameters = {} }, context) => {
        for (const [name, value] of Object.entries(FIXED[type] ?? {}))
          if (name in parameters && parameters[name] !== value)
            context.addIssue({
              code: 'custom',
              path: ['parameters', name],
              message: `wanted ${value}, to which it is fixed here`,
            });
      }),
  ),
  schedulingProfiles: z.array(
    z.strictObject({
      name: z.enum(['prefill', 'decode']),
      plugins: z.array(z.strictObject({ pluginRef: z.string(), weight: z.number().optional() })),
    }),
  ),
  /** Accepted and ignored, like FACTS. */
  dataLayer: z.unknown().optional(),
  featureGates: z.unknown().optional(),
});

type Plugin = z.output<typeof pickerConfigSchema>['plugins'][number];

/**
 * prefix-cache-scorer goes by where prompts were sent, unless its producer is the one that listens to engines' cache
 * events.
 */
function scorerOf({ type, parameters }: Plugin, plugins: readonly Plugin[]): string {
  const producer = parameters?.prefixMatchInfoProducerName;
  const precise = plugins.some(
    (one) => one.type === 'precise-prefix-cache-producer' && (one.name ?? one.type) === producer,
  );
  return type === 'prefix-cache-scorer' && precise ? 'precise-prefix-cache-scorer' : type;
}

/**
 * Converts an EndpointPickerConfig to the parameters; anything else is returned unchanged. Throws ConfigError if the
 * configuration has unknown parts.
 */
export function fromPickerConfig(config: unknown, name: string): unknown {
  if ((config as { kind?: unknown } | null)?.kind !== 'EndpointPickerConfig') return config;
  const { plugins, schedulingProfiles } = parseParameters(pickerConfigSchema, config, inRoutingConfig(name));
  const typeOf = new Map(plugins.map((plugin) => [plugin.name ?? plugin.type, scorerOf(plugin, plugins)]));
  const decider = plugins.find(({ type }) => DECIDERS.some((known) => known === type));
  const picker = plugins.find(({ type }) => PICKERS.some((known) => known === type));
  const profiles = schedulingProfiles.map(({ name, plugins: refs }) => {
    const scorers = refs.flatMap(({ pluginRef, weight = 1 }) => {
      const type = typeOf.get(pluginRef) ?? pluginRef;
      return LLM_D_SCORERS.some((known) => known === type) ? [[type, weight]] : [];
    });
    return [name, Object.fromEntries(scorers)];
  });
  return {
    ...(decider && { decider: decider.type, ...decider.parameters }),
    ...(picker && { picker: picker.type }),
    ...Object.fromEntries(profiles),
  };
}
