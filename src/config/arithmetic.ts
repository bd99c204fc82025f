/** Precision of products in the matrix kernels; sums are always f32. */
export const ARITHMETICS = ['f32', 'f16'] as const;
export type Arithmetic = (typeof ARITHMETICS)[number];

/** The precision without a measurement: auto becomes f32. */
export const unmeasured = (asked: Arithmetic | 'auto' = 'f32'): Arithmetic =>
  asked === 'auto' ? 'f32' : asked;
