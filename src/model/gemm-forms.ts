/**
 * The forms of the matrix kernel that can be chosen between, by how many rows there are. All that an adapter may take add in one
 * order, so that a choice changes speed and no bit. What is fast on an adapter is measured by autotune.ts; here is what can be measured.
 */

/** Up to 1, 4 or 16 rows, or more. */
export const ROW_CLASSES = ['1', '4', '16', 'more'] as const;
export type RowClass = (typeof ROW_CLASSES)[number];

export type GemmKernel = 'gemmWide' | 'gemm' | 'gemmPortable' | 'gemmTiled' | 'gemmSplit' | 'gemmBlocked';

/** A kernel and the rows it computes at once. */
export const GEMM_FORMS = [
  ...['gemmWide 1', 'gemmWide 4', 'gemm 4', 'gemm 8', 'gemm 16'],
  ...['gemmPortable 1', 'gemmPortable 4', 'gemmPortable 8', 'gemmTiled 32', 'gemmTiled 64'],
  ...['gemmSplit 1', 'gemmSplit 4', 'gemmBlocked 64'],
] as const satisfies readonly `${GemmKernel} ${number}`[];
export type GemmForm = (typeof GEMM_FORMS)[number];

/** A form's kernel, and the rows it computes at once. */
export function formOf(form: GemmForm): { name: GemmKernel; rows: number } {
  const [name, rows] = form.split(' ') as [GemmKernel, string];
  return { name, rows: Number(rows) };
}

/** What a kernel wants of a matrix: pairs of vec4 columns, and weights as halves. */
export const wantsOf = (name: GemmKernel): { evenColumns: boolean; halves: boolean } => ({
  evenColumns: name === 'gemmWide' || name === 'gemmSplit',
  halves: name === 'gemmSplit',
});

export type GemmChoice = Readonly<Record<RowClass, GemmForm>>;

/** Where a choice comes from. */
export interface GemmTuning {
  choice: GemmChoice;
  source: 'measured' | 'cached';
  /** How many times as fast as f32 f16 is; absent: it was not asked. */
  f16Speed?: number;
}

/** What an adapter's form says of the matrix kernel. */
export interface GemmAdapter {
  /** Threads that share values without waiting; null: the portable forms. */
  subgroup: number | null;
  /** A GPU: threads that wait for each other cost it little, and what is read must be on its way long before. */
  waits: boolean;
}

/** What an adapter can run for each number of rows; the first is what it takes unmeasured. */
export function gemmCandidates({
  subgroup,
  waits,
}: GemmAdapter): Readonly<Record<RowClass, readonly GemmForm[]>> {
  if (waits) return WAITING;
  return subgroup === null ? ANY : SHUFFLING;
}

type Candidates = Readonly<Record<RowClass, readonly GemmForm[]>>;

/** They sum along k in parts, which the others do not. */
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

/** For people: 'gemmWide 1 for 1 row, ...'. */
export function describeChoice(choice: GemmChoice): string {
  return ROW_CLASSES.map(
    (rows) => `${choice[rows]} (${rows === 'more' ? 'more' : rows === '1' ? '1 row' : `to ${rows}`})`,
  ).join(', ');
}
