/**
 * Groups a model's layers for the KV cache, as vLLM's get_kv_cache_groups does. Every group has the same number of
 * layers per block, so one pool of equal blocks serves them all. A kind's last groups may leave layers of their blocks
 * unused.
 */
import type { KvCacheSpec } from '../../config/engine.ts';
import { filledBytes } from '../../engine/kv-cache-spec.ts';
import { type Architecture, kvBlockBytes, type WeightDtype } from '../types.ts';
import { attentionOf, windowOf } from './layer-attention.ts';

export interface KvGroups {
  /** In the order of their first layers, as in vLLM; a full-attention group may be last. */
  groups: readonly { spec: KvCacheSpec; layers: readonly number[] }[];
  /** Layers per block, in every group. */
  layersPerBlock: number;
}

type LayerKinds = Pick<Architecture, 'attention' | 'numLayers'>;

/** One group if all layers are alike. */
export function kvGroups(architecture: LayerKinds): KvGroups {
  const kinds = new Map<string, { spec: KvCacheSpec; layers: number[] }>();
  for (let layer = 0; layer < architecture.numLayers; layer++) {
    const spec = attentionOf(architecture, layer);
    const key = spec.kind === 'full' ? 'full' : `sliding ${spec.window}`;
    const same = kinds.get(key);
    if (same) same.layers.push(layer);
    else kinds.set(key, { spec, layers: [layer] });
  }
  const counts = [...kinds.values()].map(({ layers }) => layers.length);
  const layersPerBlock = groupSize(Math.min(...counts), Math.max(...counts));
  const groups = [...kinds.values()].flatMap(({ spec, layers }) => {
    const numGroups = Math.ceil(layers.length / layersPerBlock);
    return Array.from({ length: numGroups }, (_, first) => {
      const its = layers.filter((_, i) => i % numGroups === first);
      const filled = its.length / layersPerBlock;
      return { spec: filled < 1 ? { ...spec, filled } : spec, layers: its };
    });
  });
  return { groups, layersPerBlock };
}

/** If the two kinds are nearly equal in number, some padding is better than many small groups. */
const groupSize = (fewest: number, most: number): number => (most < 1.5 * fewest ? most : fewest);

/** All layers in one group of whole blocks, for checks that read KV unchanged. */
export function oneGroup({ numLayers }: Pick<Architecture, 'numLayers'>): KvGroups {
  const layers = Array.from({ length: numLayers }, (_, layer) => layer);
  return { groups: [{ spec: { kind: 'full' }, layers }], layersPerBlock: numLayers };
}

/** By group: what it keeps of a sequence. */
export const kvCacheSpecs = (architecture: LayerKinds): KvCacheSpec[] =>
  kvGroups(architecture).groups.map(({ spec }) => spec);

/** Where a layer's KV is: its group, and its index in that group's blocks. */
export function placeOf({ groups }: KvGroups, layer: number): { group: number; index: number } {
  const group = groups.findIndex(({ layers }) => layers.includes(layer));
  return { group, index: groups[group]!.layers.indexOf(layer) };
}

/** By group: the most keys that a token sees in any of its layers. */
export const groupWindows = ({ groups }: KvGroups, architecture: LayerKinds): number[] =>
  groups.map(({ layers }) => Math.max(...layers.map((layer) => windowOf(architecture, layer))));

/** Bytes of a block, for any group: K and V of layersPerBlock layers for blockSize tokens. */
export const kvPageBytes = (
  { layersPerBlock }: KvGroups,
  architecture: Architecture,
  blockSize: number,
  kvDtype: WeightDtype,
): number => kvBlockBytes({ ...architecture, numLayers: layersPerBlock }, blockSize, kvDtype);

/** By group: bytes of its layers in a block, which are the bytes that transfers move. */
export const kvGroupBytes = (
  groups: KvGroups,
  architecture: Architecture,
  blockSize: number,
  kvDtype: WeightDtype,
): number[] => {
  const page = kvPageBytes(groups, architecture, blockSize, kvDtype);
  return groups.groups.map(({ spec }) => filledBytes(spec, page));
};
