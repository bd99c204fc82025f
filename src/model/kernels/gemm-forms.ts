/**
 * The forms of the matrix kernel to choose from, by number of rows. All forms available to an adapter add in one order,
 * so the choice affects speed and no bit of the result. autotune.ts measures which is fastest.
 */

/** Up to 1, 4 or 16 rows, or more. */
export const ROW_CLASSES = ['1', '4', '16', 'more'] as const;
export type RowClass = (typeof ROW_CLASSES)[number];

export type GemmKernel = 'gemmWide' | 'gemm' | 'gemmPortable' | 'gemmTiled' | 'gemmSplit' | 'gemmBlocked';

/** Each form is a kernel and the rows it computes at once. */
export const GEMM_FORMS = [
  ...['gemmWide 1', 'gemmWide 4', 'gemm 4', 'gemm 8', 'gemm 16'],
  ...['gemmPortable 1', 'gemmPortable 4', 'gemmPortable 8', 'gemmTiled 32', 'gemmTiled 64'],
  ...['gemmSplit 1', 'gemmSplit 4', 'gemmBlocked 64'],
] as const satisfies readonly `${GemmKernel} ${number}`[];
export type GemmForm = (typeof GEMM_FORMS)[number];

/** Splits a form into its kernel and the rows it computes at once. */
export function formOf(form: GemmForm): { name: GemmKernel; rows: number } {
  const [name, rows] = form.split(' ') as [GemmKernel, string];
  return { name, rows: Number(rows) };
}

/** What a kernel requires of a matrix: an even number of vec4 columns, weights as f16. */
export const requirementsOf = (name: GemmKernel): { evenColumns: boolean; halves: boolean } => ({
  evenColumns: name === 'gemmWide' || name === 'gemmSplit',
  halves: name === 'gemmSplit',
});

export type GemmChoice = Readonly<Record<RowClass, GemmForm>> & {
  /**
   * Workgroups of 'gemmBlocked 64' from which it is faster than 'gemmSplit 4', which computes what would have fewer.
   * Absent: not measured.
   */
  readonly enoughBlocked?: number | undefined;
};

/** A choice and its origin. */
export interface GemmTuning {
  choice: GemmChoice;
  source: 'measured' | 'cached';
  /** How many times as fast f16 is as f32; absent if not measured. */
  f16Speed?: number;
}

/** The properties of an adapter that the matrix kernel depends on. */
export interface GemmAdapter {
  /** Lanes of a subgroup, which share values without a barrier; null: only portable forms. */
  subgroup: number | null;
  /** True for a GPU: barriers are cheap, and loads must be issued long before their use. */
  waits: boolean;
}

/** The forms an adapter can run, by number of rows. The first is the default without a measurement. */
export type Candidates = Readonly<Record<RowClass, readonly GemmForm[]>>;

export function gemmCandidates({ subgroup, waits }: GemmAdapter): Candidates {
  if (waits) return WAITING;
  return subgroup === null ? ANY : SHUFFLING;
}

/** These sum along k in parts; the other forms do not. */
const WAITING: Candidates = {
  1: ['gemmSplit 1'],
  4: ['gemmSplit 4', 'gemmSplit 1'],
  16: ['gemmSplit 4', 'gemmBlocked 64'],
  more: ['gemmBlocked 64'],
};
const ANY: Candidates = {
  1: ['gemmPortable 1'],
  4: ['gemmPortable 4'],
  16: ['gemmPortable 8', 'gemmTiled 32'],
  more: ['gemmPortable 8', 'gemmTiled 32', 'gemmTiled 64'],
};
const SHUFFLING: Candidates = {
  1: ['gemmWide 1', 'gemmPortable 1'],
  4: ['gemmWide 4', 'gemm 4', 'gemmPortable 4'],
  16: ['gemm 16', 'gemm 8', 'gemmPortable 8', 'gemmTiled 32'],
  more: ['gemm 16', 'gemmPortable 8', 'gemmTiled 32', 'gemmTiled 64'],
};

export function defaultChoice(form: GemmAdapter): GemmChoice {
  return choiceOf((rows) => gemmCandidates(form)[rows][0]!);
}

export function choiceOf<T>(pick: (rows: RowClass) => T): Record<RowClass, T> {
  return { 1: pick('1'), 4: pick('4'), 16: pick('16'), more: pick('more') };
}

/** The most rows of a class. */
export const mostRows = (rows: RowClass): number =>
  rows === 'more' ? Number.POSITIVE_INFINITY : Number(rows);

/** A readable list, such as 'gemmWide 1 (1 row), ...'. */
export function describeChoice(choice: GemmChoice): string {
  const { enoughBlocked } = choice;
  const more = enoughBlocked === undefined ? 'more' : `more, from ${enoughBlocked} workgroups`;
  return ROW_CLASSES.map(
    (rows) => `${choice[rows]} (${rows === 'more' ? more : rows === '1' ? '1 row' : `to ${rows}`})`,
  ).join(', ');
}
