/** Which layer attends to what, turns by which angles and scales its scores by how much, from an architecture alone. */
import type { Architecture, LayerAttention, Rope } from './types.ts';

/** A window of full attention, in keys: longer than any context, and half of what 32 bits hold, as the kernels want. */
export const EVERY_KEY = 2 ** 31 - 1;

export const FULL_ATTENTION: readonly LayerAttention[] = [{ kind: 'full' }];

export function attentionOf({ attention }: Pick<Architecture, 'attention'>, layer: number): LayerAttention {
  return attention[layer % attention.length]!;
}

/** Keys that a token of this layer sees at most, its own included. */
export function windowOf(architecture: Pick<Architecture, 'attention'>, layer: number): number {
  const attention = attentionOf(architecture, layer);
  return attention.kind === 'full' ? EVERY_KEY : attention.window;
}

/** Of the layer that sees most. */
export function widestWindow(architecture: Pick<Architecture, 'attention' | 'numLayers'>): number {
  return Math.max(...Array.from({ length: architecture.numLayers }, (_, i) => windowOf(architecture, i)));
}

export function ropeOf(
  architecture: Pick<Architecture, 'ropeTheta' | 'ropeScaling' | 'slidingRope'>,
  kind: LayerAttention['kind'],
): Rope {
  return kind === 'sliding' ? (architecture.slidingRope ?? architecture) : architecture;
}

/** What q is multiplied by. */
export function attentionScale({
  headDim,
  queryPreAttnScalar,
}: Pick<Architecture, 'headDim' | 'queryPreAttnScalar'>): number {
  return 1 / Math.sqrt(queryPreAttnScalar ?? headDim);
}
