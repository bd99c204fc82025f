/**
 * Which form of a kernel serves how many rows on this adapter. All forms of a kernel add in the same order, so the choice
 * changes speed and no bit. What is fast was measured on lavapipe (8 lanes) and SwiftShader (4 lanes).
 */
import { ModelError } from '../errors.ts';
import type { Kernel, KernelLibrary, KernelName, Overrides } from '../gpu/kernels.ts';
import type { Architecture } from './types.ts';

/** A form of a kernel that takes up to `upTo` rows, `rows` of them a workgroup. */
export interface Variant {
  kernel: Kernel;
  rows: number;
  upTo: number;
}

export interface GemmVariants {
  variants: readonly Variant[];
  /** vec4 columns a workgroup, by variant. */
  columns4: readonly number[];
}

export interface AttentionVariant {
  kernel: Kernel;
  /** Flattened rows a workgroup. */
  tileRows: number;
}

export interface AdapterForm {
  /** null: the portable forms. */
  subgroup: number | null;
  /** Threads of a workgroup where any number does. */
  workgroup: number;
  /** The same where threads wait for each other, which costs a software adapter time. */
  reducing: number;
}

const PORTABLE_COLUMNS = 32;
/** Fixed in shaders/attention_portable.wgsl. */
const PORTABLE_TILE_ROWS = 4;

/** With few lanes a shuffle costs more than the loads it saves. */
export function adapterForm(subgroupSize: number | null, software: boolean): AdapterForm {
  return {
    subgroup: subgroupSize !== null && subgroupSize >= 8 && subgroupSize <= 64 ? subgroupSize : null,
    workgroup: software ? 64 : 256,
    reducing: software ? 16 : 256,
  };
}

export async function gemmVariants(
  library: KernelLibrary,
  { subgroup }: AdapterForm,
  weightsF32: boolean,
): Promise<GemmVariants> {
  const WEIGHTS_F32 = Number(weightsF32);
  const portable = (rows: number, upTo: number) =>
    form(
      'gemmPortable',
      { WORKGROUP: PORTABLE_COLUMNS, ROWS: rows, WEIGHTS_F32 },
      rows,
      upTo,
      PORTABLE_COLUMNS,
    );
  const shuffled = (lanes: number, rows: number, upTo: number) =>
    form('gemm', { SUBGROUP: lanes, ROWS: rows, WEIGHTS_F32 }, rows, upTo, lanes);
  const form = async (
    name: KernelName,
    overrides: Overrides,
    rows: number,
    upTo: number,
    columns4: number,
  ) => ({
    variant: { kernel: await library.get(name, overrides), rows, upTo },
    columns4,
  });
  const forms = await Promise.all(
    subgroup === null
      ? [portable(1, 1), portable(4, 4), portable(8, Number.POSITIVE_INFINITY)]
      : [portable(1, 1), shuffled(subgroup, 4, 4), shuffled(subgroup, 16, Number.POSITIVE_INFINITY)],
  );
  return { variants: forms.map((f) => f.variant), columns4: forms.map((f) => f.columns4) };
}

/** `few`: for pieces of one row a request; `many`: otherwise. */
export async function attentionVariants(
  library: KernelLibrary,
  { subgroup }: AdapterForm,
  shape: { headDim: number; blockSize: number; group: number; kvF32: boolean },
): Promise<{ few: AttentionVariant; many: AttentionVariant }> {
  const overrides = { HEAD_DIM: shape.headDim, BLOCK_SIZE: shape.blockSize, KV_F32: Number(shape.kvF32) };
  if (subgroup === null) {
    const portable = {
      kernel: await library.get('attentionPortable', overrides),
      tileRows: PORTABLE_TILE_ROWS,
    };
    return { few: portable, many: portable };
  }
  const variant = async (rows: number): Promise<AttentionVariant> => ({
    kernel: await library.get('attention', { ...overrides, SUBGROUP: subgroup, ROWS: rows }),
    tileRows: rows,
  });
  const fewRows = [1, 2, 4, 8].find((rows) => rows >= shape.group) ?? 8;
  const [few, many] = await Promise.all([variant(fewRows), variant(8)]);
  return { few, many };
}

/** Throws ModelError for a shape that no form of the kernels serves. */
export function checkKernelsServe({ name, headDim, numHeads, numKvHeads }: Architecture): void {
  if (headDim % 8 !== 0 || headDim > 128 || numHeads % numKvHeads !== 0) {
    throw new ModelError(
      `${name} has ${numHeads} query heads, ${numKvHeads} KV heads and head_dim ${headDim}: wanted query heads in a ` +
        'multiple of the KV heads, and a head_dim that is a multiple of 8 and at most 128; use another model',
    );
  }
}
