/**
 * Chooses which form of the matrix kernel serves how many rows on this adapter; attention-variants.ts does so for
 * attention. All forms of a kernel add in the same order, so the choice affects speed and no bit of the result.
 * Defaults come from measurements on lavapipe (8 lanes), SwiftShader (4 lanes) and an NVIDIA H100.
 */
import { invariant, ModelError } from '../../errors.ts';
import type { AdapterReport } from '../../gpu/adapter-report.ts';
import { isCompiled, type Kernel, type KernelLibrary, type Overrides } from '../../gpu/kernels.ts';
import type { Architecture } from '../types.ts';
import {
  defaultChoice,
  formOf,
  type GemmAdapter,
  type GemmChoice,
  type GemmForm,
  mostRows,
  ROW_CLASSES,
  requirementsOf,
} from './gemm-forms.ts';

/** A form of the matrix kernel with its pipeline's parameters. */
export interface GemmVariant {
  kernel: Kernel;
  /** Rows and vec4 columns that one workgroup computes. */
  rows: number;
  columns4: number;
  /** Most rows it is meant for. */
  upTo: number;
  /**
   * The matrices it may compute, by their number of vec4 columns. Forms for even and for odd numbers may add in
   * different orders.
   */
  parity: 'even' | 'odd' | 'any';
  /** Fast for matrices with at least this many vec4 columns, */
  leastColumns4: number;
  /** if there are also at least this many workgroups. */
  leastWorkgroups: number;
}

/** Called with a kernel that would have been faster but has no pipeline yet. */
export type Want = (kernel: Kernel) => void;

export interface AdapterForm extends GemmAdapter {
  /** Threads per workgroup, for kernels that work with any number. */
  workgroup: number;
  /** The same for kernels with barriers, which are expensive on a software adapter. */
  reducing: number;
  /** The same for sampling, where one workgroup serves a row. A GPU waits for each load, so more threads are better. */
  sampling: number;
  /** The same along a matrix's columns. A GPU needs a whole wave to be busy, a software adapter many workgroups. */
  columns: number;
  /** Workgroups of attention that keep the adapter busy. Beyond these, splitting contexts only adds work. */
  enoughWorkgroups: number;
}

/** Fixed in shaders/gemm_portable.wgsl: vec4 columns per thread. */
const PORTABLE_COLUMNS = 2;
/** Fixed in shaders/gemm_tiled.wgsl and gemm_blocked.wgsl: vec4 columns per workgroup. */
const TILED_COLUMNS = 16;
const BLOCKED_COLUMNS = 32;
/**
 * Groups of eight columns per workgroup in shaders/gemm_split.wgsl. Eight groups are one panel; four are used if eight
 * would give too few workgroups.
 */
const SPLIT_EIGHTS = [8, 4] as const;
const ENOUGH_SPLIT_WORKGROUPS = 128;
/**
 * With fewer workgroups, gemm_blocked.wgsl takes as long as with this many, because most of a GPU is idle. Used unless
 * measured: a GPU's cores are not known.
 */
const ENOUGH_BLOCKED_WORKGROUPS = 48;
const OF_FEW_WORKGROUPS: GemmForm = 'gemmSplit 4';
/** Each thread of shaders/sample.wgsl uses 16 bytes of workgroup memory, and every adapter has 16 KiB. */
const MOST_SAMPLING_THREADS = 1024;

/** The report's fields that forms depend on. Default limits: those every adapter has. */
type ReportedForm = Pick<AdapterReport, 'subgroupSize' | 'software'> & {
  limits?: Pick<AdapterReport['limits'], 'maxComputeInvocationsPerWorkgroup'>;
};

/**
 * The kernel parameters for an adapter. Subgroups of fewer than 8 lanes are not used: a shuffle costs more than the
 * loads it saves.
 */
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
 * Forms in order of preference: gemmFor takes the first that fits. `columns4`: the vec4 columns of all matrices. Forms
 * that no matrix would use are omitted, and so not compiled.
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
    return variants.map((variant) => ({
      ...variant,
      upTo: mostRows(rows),
      leastWorkgroups: variant.leastWorkgroups && (choice.enoughBlocked ?? variant.leastWorkgroups),
    }));
  });
}

/** The variants that some matrix would use, and the last one, which serves any. */
const taken = (variants: readonly GemmVariant[], columns4: readonly number[]): GemmVariant[] => {
  const first = columns4.map((columns) => variants.find((variant) => columns >= variant.leastColumns4));
  return variants.filter((variant) => first.includes(variant) || variant === variants.at(-1));
};

/**
 * The variants of one form, for any number of rows and without pipelines: the one for matrices with many columns first.
 * `odd`: for matrices with an odd number of vec4 columns. Throws InternalError if the adapter cannot run the form.
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
    parity: odd ? 'odd' : requirementsOf(name).evenColumns || parts ? 'even' : 'any',
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

/** On a GPU, forms for f16 weights and even columns sum along k in parts. */
const inParts = ({ waits }: Pick<AdapterForm, 'waits'>, weightsF32: boolean): boolean => waits && !weightsF32;

/** The substitute for matrices with an odd number of vec4 columns. */
function withOddColumns(chosen: GemmForm): GemmForm {
  if (chosen === 'gemmWide 1') return 'gemmPortable 1';
  return chosen === 'gemmWide 4' ? 'gemm 4' : withF32(chosen);
}

/** The substitute for f32 weights. */
function withF32(chosen: GemmForm): GemmForm {
  const { name, rows } = formOf(chosen);
  return requirementsOf(name).halves ? (`gemmPortable ${rows}` as GemmForm) : chosen;
}

export const serves = ({ parity }: GemmVariant, columns4: number): boolean =>
  parity === 'any' || (parity === 'even') === (columns4 % 2 === 0);

const isQuick = (variant: GemmVariant, rows: number, columns4: number): boolean =>
  columns4 >= variant.leastColumns4 &&
  Math.ceil(columns4 / variant.columns4) * Math.ceil(rows / variant.rows) >= variant.leastWorkgroups;

/** Called for every product of every step. */
const meantFor = (variants: readonly GemmVariant[], rows: number, columns4: number) => {
  const isMeant = (form: GemmVariant) => rows <= form.upTo && serves(form, columns4);
  return variants.find((form) => isMeant(form) && isQuick(form, rows, columns4)) ?? variants.find(isMeant);
};

/** The form for this many rows of a matrix, with or without a pipeline. */
export function gemmFor(variants: readonly GemmVariant[], rows: number, columns4: number): GemmVariant {
  return meantFor(variants, rows, columns4)!;
}

/**
 * The same among the forms with a pipeline; at least one must exist, since any form serves any number of rows. Requests
 * the preferred form through `want` if it has none.
 */
export function compiledGemmFor(
  variants: readonly GemmVariant[],
  rows: number,
  columns4: number,
  want: Want,
): GemmVariant {
  // No form is meant for this many rows if only forms for fewer rows exist.
  const meant = meantFor(variants, rows, columns4);
  if (meant && isCompiled(meant.kernel)) return meant;
  if (meant) want(meant.kernel);
  const made = variants.filter((form) => isCompiled(form.kernel) && serves(form, columns4));
  return made.find(({ upTo }) => rows <= upTo) ?? made.at(-1)!;
}

/** The most that a subgroup of 8 lanes can hold of 8 rows in shaders/attention.wgsl. */
const MOST_HEAD_DIM = 256;

/**
 * Threads of the RoPE kernel for a row: one for 8 values of a head, or for 4 if half a head is not a whole number of
 * vec4s.
 */
export function ropeThreads(columns: number, headDim: number): number {
  return headDim % 8 === 0 ? columns / 8 : columns / 4;
}

/** Throws ModelError for a shape that no kernel serves. */
export function checkKernelsServe({ name, headDim, numHeads, numKvHeads }: Architecture): void {
  if (headDim % 4 !== 0 || headDim > MOST_HEAD_DIM || numHeads % numKvHeads !== 0) {
    throw new ModelError(
      `${name} has ${numHeads} query heads, ${numKvHeads} KV heads and head_dim ${headDim}: wanted query heads in a ` +
        `multiple of the KV heads, and a head_dim that is a multiple of 4 and at most ${MOST_HEAD_DIM}; use another model`,
    );
  }
}
