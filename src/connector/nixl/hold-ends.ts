/** How holds ended, to tell a late reader why its blocks are gone, and nobody else. */
import type { Clock } from '../../engine/types.ts';
import { type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { StreamEnd } from '../../transport/types.ts';

export type HoldEnd = 'read' | 'expired' | 'dropped' | 'released';

export type Refusal = { allow: false } & StreamEnd;

/** The whole answer to whoever is not the hold's reader: which of what was said is wrong is not told. */
export const REFUSED: Refusal = {
  allow: false,
  outcome: 'refused',
  message:
    'nothing is held that the kv_transfer_params, the prompt and its cache_salt match: send the parameters as they came, once.',
};

/** Ends that a reader may still be told of: at most 300 bytes each. */
const MOST_TOLD = 2 ** 15;
/** Ends of which only is known that there was something. */
export const REMEMBERED_ENDS = 4096;

interface ToldEnd {
  end: Exclude<HoldEnd, 'read'>;
  held: PrefixClaim;
  /** Own clock, milliseconds: nobody has parameters for it that are still good. */
  untilMs: number;
}

export class HoldEnds {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #told = new Map<string, ToldEnd>();
  readonly #read = new Set<string>();
  /** The same round and round: a Set's first one is found past the places of all that were deleted. */
  readonly #lastRead: string[] = [];
  #numRead = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** untilMs: until when a reader may come for it. */
  remember(requestId: string, end: HoldEnd, held: PrefixClaim, untilMs: number): void {
    this.#told.delete(requestId);
    if (end === 'read') {
      if (this.#read.has(requestId)) return;
      this.#read.add(requestId);
      const place = this.#numRead++ % REMEMBERED_ENDS;
      if (this.#numRead > REMEMBERED_ENDS) this.#read.delete(this.#lastRead[place]!);
      this.#lastRead[place] = requestId;
      return;
    }
    this.#told.set(requestId, { end, held, untilMs });
    for (const [oldest, told] of this.#told) {
      if (told.untilMs > this.#clock.now() && this.#told.size <= MOST_TOLD) break;
      this.#told.delete(oldest);
    }
  }

  knows(requestId: string): boolean {
    return this.#told.has(requestId) || this.#read.has(requestId);
  }

  /** What was read to its end was its reader's: who comes then is another. */
  refuse(requestId: string, held: PrefixClaim): Refusal {
    const told = this.#told.get(requestId);
    return told && sameClaim(told.held, held) ? refusal(told.end, requestId) : REFUSED;
  }
}

/** Told to the hold's own reader. */
export function refusal(end: HoldEnd, requestId: string): Refusal {
  const because = (outcome: StreamEnd['outcome'], why: string): Refusal => {
    return { allow: false, outcome, message: `request '${requestId}' at the holder: ${why}.` };
  };
  switch (end) {
    case 'dropped':
      return because('declined', 'its blocks were freed because the pool was full');
    case 'released':
      return because('declined', 'its blocks were released');
    case 'expired':
      return because('expired', 'its time to be read has passed');
    case 'read':
      return REFUSED;
  }
}
