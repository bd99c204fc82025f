/** Attention settings by layer, from the architecture alone: window, RoPE and score scale. */
import type { Architecture, LayerAttention, Rope } from '../types.ts';

/**
 * The window of full attention, in keys: longer than any context, and at most half the range of 32 bits, as the kernels
 * require.
 */
export const EVERY_KEY = 2 ** 31 - 1;

export const FULL_ATTENTION: readonly LayerAttention[] = [{ kind: 'full' }];

export function attentionOf({ attention }: Pick<Architecture, 'attention'>, layer: number): LayerAttention {
  return attention[layer % attention.length]!;
}

/** Most keys that a token of this layer sees, including its own; at most EVERY_KEY, whatever the config says. */
export function windowOf(architecture: Pick<Architecture, 'attention'>, layer: number): number {
  const attention = attentionOf(architecture, layer);
  return attention.kind === 'full' ? EVERY_KEY : Math.min(attention.window, EVERY_KEY);
}

/** The window of the layer that sees most keys. */
export function widestWindow(architecture: Pick<Architecture, 'attention' | 'numLayers'>): number {
  return Math.max(...Array.from({ length: architecture.numLayers }, (_, i) => windowOf(architecture, i)));
}

export function ropeOf(
  architecture: Pick<Architecture, 'ropeTheta' | 'ropeScaling' | 'slidingRope'>,
  kind: LayerAttention['kind'],
): Rope {
  return kind === 'sliding' ? (architecture.slidingRope ?? architecture) : architecture;
}

/** The factor that q is multiplied by. */
export function attentionScale({
  headDim,
  queryPreAttnScalar,
}: Pick<Architecture, 'headDim' | 'queryPreAttnScalar'>): number {
  return 1 / Math.sqrt(queryPreAttnScalar ?? headDim);
}
