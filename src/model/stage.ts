/** One kernel call of a pass, and how much work it is. */
import type { Dispatch } from '../gpu/kernels.ts';
import type { Piece } from './step-inputs.ts';

/** A dispatch with how much there is to do, in multiply-adds or values touched. */
export interface Work extends Dispatch {
  work: number;
  /** What it computes, such as 'layer 3 qkv'. */
  label: string;
}

/** One kernel call of the pass, for any piece; null: not for this one. */
export type Stage = (piece: Piece) => Work | null;
