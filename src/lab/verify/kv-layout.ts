/**
 * Reads KV blocks as bytes: finds a token's keys and values, converts them to numbers, and finds where two copies differ. A
 * block is [layer][K, V][kv head][slot][head dim], f16 or f32, little endian. Does not transfer anything.
 */
import { invariant } from '../../errors.ts';
import type { KvGroups } from '../../model/architecture/kv-groups.ts';
import type { Architecture, WeightDtype } from '../../model/types.ts';
import { halfTable } from '../../model/weights/half.ts';

export interface KvLayout {
  numLayers: number;
  numKvHeads: number;
  headDim: number;
  /** Slots per block. */
  blockSize: number;
  kvDtype: WeightDtype;
}

/** Blocks of one sequence, in order: position p is slot p % blockSize of block floor(p / blockSize). */
export type SequenceBlocks = readonly Uint8Array[];

const PLANES = ['key', 'value'] as const;
export type Plane = (typeof PLANES)[number];

export const kvLayout = (
  { numLayers, numKvHeads, headDim }: Architecture,
  blockSize: number,
  kvDtype: WeightDtype,
): KvLayout => ({ numLayers, numKvHeads, headDim, blockSize, kvDtype });

/** Bytes of one head's key, or value, of one token. */
const headBytes = ({ headDim, kvDtype }: KvLayout): number => headDim * (kvDtype === 'f16' ? 2 : 4);

export interface HeadPlace {
  layer: number;
  plane: Plane;
  head: number;
}

function headAt(
  layout: KvLayout,
  blocks: SequenceBlocks,
  { layer, plane, head }: HeadPlace,
  position: number,
): Uint8Array {
  const { numKvHeads, blockSize } = layout;
  const heads = (layer * PLANES.length + PLANES.indexOf(plane)) * numKvHeads + head;
  const bytes = headBytes(layout);
  const at = (heads * blockSize + (position % blockSize)) * bytes;
  return blocks[Math.floor(position / blockSize)]!.subarray(at, at + bytes);
}

/** One head's keys or values of the first `length` positions, [position][head dim]. */
export function headValues(
  layout: KvLayout,
  blocks: SequenceBlocks,
  place: HeadPlace,
  length: number,
): Float32Array {
  const { headDim, kvDtype } = layout;
  const widen = halfTable();
  const out = new Float32Array(length * headDim);
  for (let position = 0; position < length; position++) {
    const bytes = headAt(layout, blocks, place, position);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let i = 0; i < headDim; i++) {
      out[position * headDim + i] =
        kvDtype === 'f16' ? widen[view.getUint16(2 * i, true)]! : view.getFloat32(4 * i, true);
    }
  }
  return out;
}

/** A sequence's blocks, each with all layers. A layer with a window has no KV before a certain position. */
export interface HeldSequence {
  blocks: SequenceBlocks;
  /** The first position with KV, by layer. */
  from: readonly number[];
}

/**
 * Combines the blocks of the KV cache groups into blocks with all layers, one for each place in the sequence. A windowed group
 * has only the sequence's last blocks.
 */
export function assemble(
  layout: KvLayout,
  { groups, layersPerBlock }: KvGroups,
  byGroup: readonly SequenceBlocks[],
  length: number,
): HeldSequence {
  const count = Math.ceil(length / layout.blockSize);
  const layerBytes = 2 * layout.numKvHeads * layout.blockSize * headBytes(layout);
  const blocks = Array.from({ length: count }, () => new Uint8Array(layout.numLayers * layerBytes));
  const from = new Array<number>(layout.numLayers).fill(0);
  groups.forEach(({ spec, layers }, group) => {
    const pages = byGroup[group] ?? [];
    const first = count - pages.length;
    // Missing blocks would not be compared at all.
    invariant(first === 0 || spec.kind !== 'full', () => `${pages.length} blocks of ${count} are there`);
    layers.forEach((layer, place) => {
      from[layer] = first * layout.blockSize;
      pages.forEach((page, i) => {
        invariant(page.length === layersPerBlock * layerBytes, () => `a block of ${page.length} bytes`);
        const piece = page.subarray(place * layerBytes, (place + 1) * layerBytes);
        blocks[first + i]!.set(piece, layer * layerBytes);
      });
    });
  });
  return { blocks, from };
}

/** The first place at which two copies of the first `length` positions differ in bytes, where both have KV; null: none. */
export function firstDifference(
  layout: KvLayout,
  { blocks: a, from: fromA }: HeldSequence,
  { blocks: b, from: fromB }: HeldSequence,
  length: number,
): string | null {
  for (let position = 0; position < length; position++) {
    for (let layer = 0; layer < layout.numLayers; layer++) {
      if (position < Math.max(fromA[layer]!, fromB[layer]!)) continue;
      for (const plane of PLANES) {
        for (let head = 0; head < layout.numKvHeads; head++) {
          const place = { layer, plane, head };
          const there = headAt(layout, b, place, position);
          const same = headAt(layout, a, place, position).every((byte, i) => byte === there[i]);
          if (!same) return `token ${position}, layer ${layer}, ${plane} of head ${head}`;
        }
      }
    }
  }
  return null;
}
