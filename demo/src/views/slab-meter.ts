/** The slab's fill is gone within milliseconds: the meter lets what was seen fall slowly, so that an eye can read it. */
import type { SlabView } from '../session/types.ts';

const FALL_MS = 900;

export class SlabMeter {
  /** Slots in use, as shown. */
  shown = 0;

  /** Returns true while it still falls. */
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
