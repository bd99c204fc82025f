/** Reads each layer's attention window and RoPE settings from a config.json. Throws ModelError for contradictions. */
import { ModelError } from '../../errors.ts';
import type { LayerAttention, Rope, RopeScaling } from '../types.ts';
import type { Config, Family, RopeConfig } from './config-schema.ts';
import { FULL_ATTENTION } from './layer-attention.ts';

const DEFAULT_THETA = 10_000;
const GEMMA3_THETA = 1_000_000;
/** From transformers' Gemma3TextConfig: every sixth layer has full attention. */
const GEMMA3_PATTERN = 6;
/** From transformers' configs of Mistral and Qwen. */
const DEFAULT_WINDOW = 4096;

type Kind = 'full_attention' | 'sliding_attention';

/** By layer. */
export function readAttention(config: Config, family: Family, where: string): readonly LayerAttention[] {
  const window = windowOf(config, family, where);
  const kinds = kindsOf(config, family, window, where);
  const sliding = kinds.indexOf('sliding_attention');
  if (sliding < 0) return FULL_ATTENTION;
  if (family === 'llama') {
    throw new ModelError(
      `${where}: the layer type 'sliding_attention' of layer ${sliding} is not supported in a Llama: ` +
        "wanted 'full_attention' everywhere, or another architecture",
    );
  }
  if (window === null) {
    const found =
      config.use_sliding_window === true || family === 'gemma3' || family === 'mistral'
        ? `sliding_window is ${config.sliding_window ?? 'missing'}`
        : `use_sliding_window is ${config.use_sliding_window ?? 'missing'}`;
    throw new ModelError(
      `${where}: layer ${sliding} is 'sliding_attention', but ${found}: wanted a window; correct one of them`,
    );
  }
  return kinds.map((kind) => (kind === 'full_attention' ? { kind: 'full' } : { kind: 'sliding', window }));
}

/** Keys that sliding layers see; null if the model has no window. */
function windowOf(config: Config, family: Family, where: string): number | null {
  const { sliding_window: window, use_sliding_window: used } = config;
  switch (family) {
    case 'llama':
      if (typeof window !== 'number') return null;
      throw new ModelError(
        `${where}: sliding_window ${window} is not supported in a Llama: wanted none, or another architecture`,
      );
    case 'qwen2':
    case 'qwen3':
      if (used !== true) return null;
      return window === undefined ? DEFAULT_WINDOW : window;
    case 'mistral':
      return window === undefined ? DEFAULT_WINDOW : window;
    case 'gemma3':
      return window ?? null;
  }
}

function kindsOf(config: Config, family: Family, window: number | null, where: string): Kind[] {
  const { num_hidden_layers: layers, layer_types: types } = config;
  const pattern = family === 'gemma3' ? patternOf(config, where) : null;
  const byRule = (layer: number): Kind => {
    if (family === 'gemma3')
      return (layer + 1) % (pattern ?? GEMMA3_PATTERN) === 0 ? 'full_attention' : 'sliding_attention';
    const slides = window !== null && (family === 'mistral' || layer >= config.max_window_layers);
    return slides ? 'sliding_attention' : 'full_attention';
  };
  if (!types) return Array.from({ length: layers }, (_, layer) => byRule(layer));
  if (types.length !== layers) {
    throw new ModelError(
      `${where}: layer_types has ${types.length} entries, but num_hidden_layers is ${layers}: correct one of them`,
    );
  }
  return types.map((type, layer) => {
    if (type !== 'full_attention' && type !== 'sliding_attention') {
      throw new ModelError(
        `${where}: the layer type '${type}' of layer ${layer} is not supported: wanted 'full_attention' or 'sliding_attention'`,
      );
    }
    if (pattern !== null && type !== byRule(layer)) {
      throw new ModelError(
        `${where}: layer ${layer} is '${type}' by layer_types and '${byRule(layer)}' by sliding_window_pattern ${pattern}: correct one of them`,
      );
    }
    return type;
  });
}

function patternOf(config: Config, where: string): number | null {
  const { sliding_window_pattern: pattern, _sliding_window_pattern: hidden } = config;
  if (pattern && hidden && pattern !== hidden) {
    throw new ModelError(
      `${where}: sliding_window_pattern is ${pattern}, but _sliding_window_pattern is ${hidden}: correct one of them`,
    );
  }
  return pattern ?? hidden ?? null;
}

/** RoPE of full layers, and of sliding layers if theirs differs. */
export function readRopes(
  config: Config,
  family: Family,
  attention: readonly LayerAttention[],
  where: string,
): Rope & { slidingRope: Rope | null } {
  const { rope_parameters: parameters, rope_theta: theta, rope_local_base_freq: local } = config;
  checkGivenTwice(config, where);
  const fullBase = family === 'gemma3' ? GEMMA3_THETA : DEFAULT_THETA;
  const has = (wanted: LayerAttention['kind']) => attention.some(({ kind }) => kind === wanted);
  const byType = parameters?.full_attention ?? parameters?.sliding_attention;
  if (byType) {
    const of = (type: Kind, base: number | null | undefined, baseName: string, needed: boolean) => {
      const rope = parameters?.[type];
      const otherwise = type === 'full_attention' ? fullBase : DEFAULT_THETA;
      if (rope) return readRope(rope, base ?? null, baseName, otherwise, `rope_parameters.${type}`, where);
      if (!needed) return null;
      throw new ModelError(
        `${where}: rope_parameters has no ${type}, but some layers have that type: wanted one entry per layer type`,
      );
    };
    const full = of('full_attention', theta, 'rope_theta', has('full'));
    const sliding = of('sliding_attention', local, 'rope_local_base_freq', has('sliding'));
    return { ...(full ?? sliding!), slidingRope: has('sliding') ? sliding : null };
  }
  const rope = parameters ?? config.rope_scaling ?? {};
  const name = parameters ? 'rope_parameters' : 'rope_scaling';
  return {
    ...readRope(rope, theta ?? null, 'rope_theta', fullBase, name, where),
    slidingRope:
      family === 'gemma3' && has('sliding') ? { ropeTheta: local ?? DEFAULT_THETA, ropeScaling: null } : null,
  };
}

/** Equal settings under both names are accepted. Otherwise versions of transformers differ in which they use. */
function checkGivenTwice(
  { rope_scaling: scaling, rope_parameters: parameters }: Config,
  where: string,
): void {
  if (!scaling || !parameters) return;
  const full = parameters.full_attention ?? parameters;
  const [old, now] = [scaling, full].map((rope) => JSON.stringify(readScaling(rope, where)));
  if (old === now && (scaling.rope_theta ?? full.rope_theta) === full.rope_theta) return;
  throw new ModelError(
    `${where}: rope_scaling and rope_parameters are both given, and differ: wanted one of them; remove the other`,
  );
}

function readRope(
  rope: RopeConfig,
  beside: number | null,
  besideName: string,
  otherwise: number,
  name: string,
  where: string,
): Rope {
  const { rope_theta: own, partial_rotary_factor: rotary = 1 } = rope;
  if (own !== undefined && beside !== null && own !== beside) {
    throw new ModelError(
      `${where}: ${name}.rope_theta is ${own}, but ${besideName} is ${beside}: correct one of them`,
    );
  }
  if (rotary !== 1) {
    throw new ModelError(
      `${where}: partial_rotary_factor ${rotary} is not supported: wanted RoPE over whole heads (1)`,
    );
  }
  return { ropeTheta: own ?? beside ?? otherwise, ropeScaling: readScaling(rope, where) };
}

function readScaling(rope: RopeConfig, where: string): RopeScaling | null {
  const type = rope.rope_type ?? rope.type ?? (rope.factor === undefined ? 'default' : null);
  if (type === 'default') return null;
  if (type === null) {
    throw new ModelError(
      `${where}: RoPE has factor ${rope.factor} but no rope_type: wanted 'linear', 'llama3', or 'default' without a factor`,
    );
  }
  if (type !== 'llama3' && type !== 'linear') {
    throw new ModelError(
      `${where}: rope_type '${type}' is not supported: wanted 'default', 'linear' or 'llama3'; use another model`,
    );
  }
  const need = (
    key: 'factor' | 'low_freq_factor' | 'high_freq_factor' | 'original_max_position_embeddings',
  ) => {
    const value = rope[key];
    if (value === undefined)
      throw new ModelError(`${where}: rope_type '${type}' needs ${key}, which is missing: add it`);
    return value;
  };
  if (type === 'linear') return { type, factor: need('factor') };
  const scaling: RopeScaling = {
    type,
    factor: need('factor'),
    lowFreqFactor: need('low_freq_factor'),
    highFreqFactor: need('high_freq_factor'),
    originalMaxPositionEmbeddings: need('original_max_position_embeddings'),
  };
  if (scaling.highFreqFactor <= scaling.lowFreqFactor) {
    throw new ModelError(
      `${where}: high_freq_factor ${scaling.highFreqFactor} must be more than low_freq_factor ${scaling.lowFreqFactor}: correct one of them`,
    );
  }
  return scaling;
}
