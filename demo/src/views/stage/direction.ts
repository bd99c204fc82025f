/** Directions between the two drawn engines: p_to_d is the handover, d_to_p the pull. No DOM. */
import type { Role, SessionState, TransferView } from '../../session/types.ts';

export type Direction = 'p_to_d' | 'd_to_p';
export const DIRECTIONS = ['d_to_p', 'p_to_d'] as const satisfies readonly Direction[];

/** A prefill engine reads from a decode engine, and the other way round. */
export const directionOf = ({ side }: Pick<TransferView, 'side'>): Direction =>
  side === 'prefill' ? 'd_to_p' : 'p_to_d';

export const holderOf = (direction: Direction): Role => (direction === 'd_to_p' ? 'decode' : 'prefill');
export const readerOf = (direction: Direction): Role => (direction === 'd_to_p' ? 'prefill' : 'decode');

/** Ids of the two drawn engines; null before an engine exists. */
export type DrawnIds = Readonly<Record<Role, string | null>>;

export const drawnIds = ({ drawn }: Pick<SessionState, 'drawn'>): DrawnIds => ({
  prefill: drawn.prefill.value?.engineId ?? null,
  decode: drawn.decode.value?.engineId ?? null,
});
