/** One kernel call of a pass, with the amount of work it does. */
import type { Dispatch } from '../../gpu/kernels.ts';
import type { Piece } from './step-inputs.ts';

/** A dispatch with its amount of work, in multiply-adds or values touched. */
export interface Work extends Dispatch {
  work: number;
  /** What it computes, such as 'layer 3 qkv'. */
  label: string;
}

/** One kernel call of the pass, for any piece; null: not needed for this piece. */
export type Stage = (piece: Piece) => Work | null;
