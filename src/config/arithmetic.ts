/** What products of the matrix kernels are computed in; their sums are f32. */
export const ARITHMETICS = ['f32', 'f16'] as const;
export type Arithmetic = (typeof ARITHMETICS)[number];

/** Where nothing was measured, auto is f32. */
export const unmeasured = (asked: Arithmetic | 'auto' = 'f32'): Arithmetic =>
  asked === 'auto' ? 'f32' : asked;
