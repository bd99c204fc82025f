/** The slab empties within milliseconds. The meter falls slowly instead, so that it can be read. */
import type { SlabView } from '../../session/types.ts';

const FALL_MS = 900;

export class SlabMeter {
  /** Slots in use, as the meter shows them. */
  shown = 0;

  /** Returns true while the meter is still falling. */
  advance(slab: SlabView | null, elapsedMs: number): boolean {
    if (!slab) {
      this.shown = 0;
      return false;
    }
    const fall = (elapsedMs / FALL_MS) * slab.slots;
    this.shown = Math.max(slab.slotsInUse, this.shown - fall);
    return this.shown > slab.slotsInUse;
  }
}
