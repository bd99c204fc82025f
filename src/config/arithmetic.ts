/** What products of the matrix kernels are computed in; their sums are f32. */
export const ARITHMETICS = ['f32', 'f16'] as const;
export type Arithmetic = (typeof ARITHMETICS)[number];
