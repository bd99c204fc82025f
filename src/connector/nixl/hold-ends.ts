/** Remembers how holds ended, to tell a late reader, and only that reader, why its blocks are gone. */
import type { Clock } from '../../engine/types.ts';
import { type PrefixClaim, sameClaim } from '../../transport/prefix-claim.ts';
import type { StreamEnd } from '../../transport/types.ts';

export type HoldEnd = 'read' | 'expired' | 'dropped' | 'released';

export type Refusal = { allow: false } & StreamEnd;

/** The only answer to anyone who is not the hold's reader. It does not reveal which claim was wrong. */
export const REFUSED: Refusal = {
  allow: false,
  outcome: 'refused',
  message:
    'no hold matches these kv_transfer_params, the prompt and its cache_salt: send the parameters unchanged, and only once.',
};

/** The most ends remembered with their reason; at most 300 bytes each. */
const MOST_EXPLAINED = 2 ** 15;
/** The most ends remembered by id only. */
export const REMEMBERED_ENDS = 4096;

interface ExplainedEnd {
  end: Exclude<HoldEnd, 'read'>;
  held: PrefixClaim;
  /** When the last valid parameters for it expire, ms on the engine's clock. */
  untilMs: number;
}

export class HoldEnds {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #explained = new Map<string, ExplainedEnd>();
  readonly #read = new Set<string>();
  /** Ring buffer of the ids in #read. Finding a Set's oldest element would mean skipping all deleted ones. */
  readonly #lastRead: string[] = [];
  #numRead = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `untilMs`: until when a reader may ask for it, ms on the engine's clock. */
  remember(requestId: string, end: HoldEnd, held: PrefixClaim, untilMs: number): void {
    this.#explained.delete(requestId);
    if (end === 'read') {
      if (this.#read.has(requestId)) return;
      this.#read.add(requestId);
      const place = this.#numRead++ % REMEMBERED_ENDS;
      if (this.#numRead > REMEMBERED_ENDS) this.#read.delete(this.#lastRead[place]!);
      this.#lastRead[place] = requestId;
      return;
    }
    this.#explained.set(requestId, { end, held, untilMs });
    for (const [oldest, explained] of this.#explained) {
      if (explained.untilMs > this.#clock.now() && this.#explained.size <= MOST_EXPLAINED) break;
      this.#explained.delete(oldest);
    }
  }

  knows(requestId: string): boolean {
    return this.#explained.has(requestId) || this.#read.has(requestId);
  }

  /** Gives the reason only if the claim matches. After a complete read, always REFUSED: the reader does not ask again. */
  refuse(requestId: string, held: PrefixClaim): Refusal {
    const explained = this.#explained.get(requestId);
    return explained && sameClaim(explained.held, held) ? refusal(explained.end, requestId) : REFUSED;
  }
}

/** The reason given to the hold's own reader. */
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
