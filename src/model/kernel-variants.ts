/**
 * Which form of the matrix kernel serves how many rows on this adapter (of attention: attention-variants.ts). All forms of a kernel add in the same order, so the choice
 * changes speed and no bit. What is fast was measured on lavapipe (8 lanes), SwiftShader (4 lanes) and an NVIDIA H100.
 */
import { invariant, ModelError } from '../errors.ts';
import type { AdapterReport } from '../gpu/adapter-report.ts';
import { isMade, type Kernel, type KernelLibrary, type Overrides } from '../gpu/kernels.ts';
import {
  defaultChoice,
  formOf,
  type GemmAdapter,
  type GemmChoice,
  type GemmForm,
  mostRows,
  ROW_CLASSES,
  wantsOf,
} from './gemm-forms.ts';
import type { Architecture } from './types.ts';

/** A form of the matrix kernel. */
export interface GemmVariant {
  kernel: Kernel;
  /** Rows and vec4 columns a workgroup computes. */
  rows: number;
  columns4: number;
  /** It is for up to so many rows. */
  upTo: number;
  /** Which matrices it may compute, by their vec4 columns: forms for even and for odd ones may add in different orders. */
  parity: 'even' | 'odd' | 'any';
  /** It is quick for matrices of at least so many vec4 columns, */
  leastColumns4: number;
  /** and where it has at least so many workgroups. */
  leastWorkgroups: number;
}

/** Takes note of a kernel that a step would rather have had. */
export type Want = (kernel: Kernel) => void;

export interface AdapterForm extends GemmAdapter {
  /** Threads of a workgroup where any number does. */
  workgroup: number;
  /** The same where threads wait for each other, which costs a software adapter time. */
  reducing: number;
  /** The same for a row's sampling, which one workgroup does: a GPU waits for each load, so the more the better. */
  sampling: number;
  /** The same along a matrix's columns, of which a GPU wants a whole wave to be busy and a software adapter many pieces. */
  columns: number;
  /** With so many workgroups of attention the adapter is busy: splitting contexts would only add work. */
  enoughWorkgroups: number;
}

/** Fixed in shaders/gemm_portable.wgsl: vec4 columns a thread. */
const PORTABLE_COLUMNS = 2;
/** Fixed in shaders/gemm_tiled.wgsl and gemm_blocked.wgsl. */
const TILED_COLUMNS = 16;
const BLOCKED_COLUMNS = 32;
/** Eights of columns a workgroup of shaders/gemm_split.wgsl: as many as lie together, where that gives workgroups enough. */
const SPLIT_EIGHTS = [8, 4] as const;
const ENOUGH_SPLIT_WORKGROUPS = 128;
/** With fewer gemm_blocked.wgsl takes as long as with so many, since most of a GPU has nothing to do. */
const ENOUGH_BLOCKED_WORKGROUPS = 48;
const OF_FEW_WORKGROUPS: GemmForm = 'gemmSplit 4';
/** What a thread of shaders/sample.wgsl keeps in workgroup memory takes 16 bytes, of 16 KiB that there are everywhere. */
const MOST_SAMPLING_THREADS = 1024;

/** What forms go by; limits: left out, those that there are everywhere. */
type ReportedForm = Pick<AdapterReport, 'subgroupSize' | 'software'> & {
  limits?: Pick<AdapterReport['limits'], 'maxComputeInvocationsPerWorkgroup'>;
};

/** With few lanes a shuffle costs more than the loads it saves. */
export function adapterForm({ subgroupSize, software, limits }: ReportedForm): AdapterForm {
  const mostThreads = limits?.maxComputeInvocationsPerWorkgroup ?? 256;
  const reducing = software ? Math.max(16, subgroupSize ?? 0) : 256;
  return {
    subgroup: subgroupSize !== null && subgroupSize >= 8 && subgroupSize <= 64 ? subgroupSize : null,
    workgroup: software ? 64 : 256,
    reducing,
    sampling: software ? reducing : 2 ** Math.floor(Math.log2(Math.min(mostThreads, MOST_SAMPLING_THREADS))),
    columns: software ? 16 : 64,
    enoughWorkgroups: software ? 2 : 256,
    waits: !software,
  };
}

/**
 * In order of preference: the first that serves is the one to take (gemmFor). columns4: of all matrices; forms that none of them
 * takes are not among them, and so not compiled.
 */
export function gemmVariants(
  library: KernelLibrary,
  form: AdapterForm,
  weightsF32: boolean,
  columns4: readonly number[],
  choice: GemmChoice = defaultChoice(form),
): GemmVariant[] {
  const odd = columns4.some((columns) => columns % 2 !== 0);
  return ROW_CLASSES.flatMap((rows) => {
    const meant = weightsF32 ? withF32(choice[rows]) : choice[rows];
    const forms = [
      meant,
      ...(inParts(form, weightsF32) && meant === 'gemmBlocked 64' ? [OF_FEW_WORKGROUPS] : []),
    ];
    const variants = [
      ...forms.flatMap((chosen) => taken(gemmForms(library, form, weightsF32, chosen), columns4)),
      ...(odd ? gemmForms(library, form, weightsF32, withOddColumns(meant), true) : []),
    ];
    return variants.map((variant) => ({ ...variant, upTo: mostRows(rows) }));
  });
}

/** Of a form's variants those that some matrix takes, and the last one, which serves any. */
const taken = (variants: readonly GemmVariant[], columns4: readonly number[]): GemmVariant[] => {
  const first = columns4.map((columns) => variants.find((variant) => columns >= variant.leastColumns4));
  return variants.filter((variant) => first.includes(variant) || variant === variants.at(-1));
};

/**
 * One form, for any number of rows and not made: as it is for matrices of many columns, then of fewer. `odd`: for those of an odd
 * number of vec4 columns. Throws InternalError when the adapter cannot run it.
 */
export function gemmForms(
  library: KernelLibrary,
  { subgroup, columns, waits }: AdapterForm,
  weightsF32: boolean,
  chosen: GemmForm,
  odd = false,
): GemmVariant[] {
  const { name, rows } = formOf(chosen);
  const lanes = subgroup ?? 0;
  const needsLanes = name === 'gemm' || name === 'gemmWide';
  invariant(!needsLanes || subgroup !== null, () => `${chosen} needs subgroups of one size`);
  const WEIGHTS_F32 = Number(weightsF32);
  const parts = inParts({ waits }, weightsF32) && !odd;
  const variant = (
    columns4: number,
    overrides: Overrides,
    { leastColumns4 = 0, leastWorkgroups = 0 } = {},
  ): GemmVariant => ({
    kernel: library.kernel(name, overrides),
    rows,
    columns4,
    upTo: Number.POSITIVE_INFINITY,
    parity: odd ? 'odd' : wantsOf(name).evenColumns || parts ? 'even' : 'any',
    leastColumns4,
    leastWorkgroups,
  });
  switch (name) {
    case 'gemm':
      return [variant(lanes, { SUBGROUP: lanes, ROWS: rows, WEIGHTS_F32 })];
    case 'gemmWide':
      return [variant(2 * lanes, { SUBGROUP: lanes, ROWS: rows, WEIGHTS_F32 })];
    case 'gemmPortable':
      return [variant(PORTABLE_COLUMNS * columns, { WORKGROUP: columns, ROWS: rows, WEIGHTS_F32 })];
    case 'gemmTiled':
      return [variant(TILED_COLUMNS, { ROWS: rows, WEIGHTS_F32 })];
    case 'gemmBlocked':
      return [
        variant(
          BLOCKED_COLUMNS,
          { WEIGHTS_F32, WHOLE: Number(!parts) },
          { leastWorkgroups: parts ? ENOUGH_BLOCKED_WORKGROUPS : 0 },
        ),
      ];
    case 'gemmSplit':
      return SPLIT_EIGHTS.map((eights, i) => {
        const leastColumns4 = i + 1 < SPLIT_EIGHTS.length ? 2 * eights * ENOUGH_SPLIT_WORKGROUPS : 0;
        return variant(2 * eights, { ROWS: rows, EIGHTS: eights }, { leastColumns4 });
      });
  }
}

/** A GPU's forms for halves and even columns sum along k in parts. */
const inParts = ({ waits }: Pick<AdapterForm, 'waits'>, weightsF32: boolean): boolean => waits && !weightsF32;

/** The form that takes its place where a matrix has an odd number of vec4 columns. */
function withOddColumns(chosen: GemmForm): GemmForm {
  if (chosen === 'gemmWide 1') return 'gemmPortable 1';
  return chosen === 'gemmWide 4' ? 'gemm 4' : withF32(chosen);
}

/** The same where weights are f32. */
function withF32(chosen: GemmForm): GemmForm {
  const { name, rows } = formOf(chosen);
  return wantsOf(name).halves ? (`gemmPortable ${rows}` as GemmForm) : chosen;
}

const serves = ({ parity }: GemmVariant, columns4: number): boolean =>
  parity === 'any' || (parity === 'even') === (columns4 % 2 === 0);

const isQuick = (variant: GemmVariant, rows: number, columns4: number): boolean =>
  columns4 >= variant.leastColumns4 &&
  Math.ceil(columns4 / variant.columns4) * Math.ceil(rows / variant.rows) >= variant.leastWorkgroups;

/** Asked of every product of every step. */
const meantFor = (variants: readonly GemmVariant[], rows: number, columns4: number) => {
  const isMeant = (form: GemmVariant) => rows <= form.upTo && serves(form, columns4);
  return variants.find((form) => isMeant(form) && isQuick(form, rows, columns4)) ?? variants.find(isMeant);
};

/** The form for so many rows of a matrix, made or not. */
export function gemmFor(variants: readonly GemmVariant[], rows: number, columns4: number): GemmVariant {
  return meantFor(variants, rows, columns4)!;
}

/** The same of those that are made, of which there must be one: any serves any number of rows. The other is wanted. */
export function madeGemmFor(
  variants: readonly GemmVariant[],
  rows: number,
  columns4: number,
  want: Want,
): GemmVariant {
  // None is meant where forms of few rows stand in for those of many.
  const meant = meantFor(variants, rows, columns4);
  if (meant && isMade(meant.kernel)) return meant;
  if (meant) want(meant.kernel);
  const made = variants.filter((form) => isMade(form.kernel) && serves(form, columns4));
  return made.find(({ upTo }) => rows <= upTo) ?? made.at(-1)!;
}

/** What a subgroup of 8 lanes keeps of 8 rows in shaders/attention.wgsl. */
const MOST_HEAD_DIM = 256;

/** Threads of the rope kernel for a row: one for 8 values of a head, or for 4 where half a head is no whole number of vec4s. */
export function ropeThreads(columns: number, headDim: number): number {
  return headDim % 8 === 0 ? columns / 8 : columns / 4;
}

/** Throws ModelError for a shape that no form of the kernels serves. */
export function checkKernelsServe({ name, headDim, numHeads, numKvHeads }: Architecture): void {
  if (headDim % 4 !== 0 || headDim > MOST_HEAD_DIM || numHeads % numKvHeads !== 0) {
    throw new ModelError(
      `${name} has ${numHeads} query heads, ${numKvHeads} KV heads and head_dim ${headDim}: wanted query heads in a ` +
        `multiple of the KV heads, and a head_dim that is a multiple of 4 and at most ${MOST_HEAD_DIM}; use another model`,
    );
  }
}
