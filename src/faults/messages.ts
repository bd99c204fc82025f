/**
 * What can happen to messages on their way, one direction of one pair: lost, late, twice, overtaken by the next, cut
 * short, or with a bit of the slab flipped under them. Deals with messages as they come; knows no port and no timer.
 */
import type { NotificationMessage, PeerMessage } from '../transport/messages.ts';
import type { FaultKind } from './schedule.ts';

export const MESSAGE_FAULTS = [
  'lose',
  'delay',
  'repeat',
  'reorder',
  'truncate',
  'lose-notice',
  'flip',
] as const satisfies readonly FaultKind[];
export type MessageFault = (typeof MESSAGE_FAULTS)[number];

export const isMessageFault = (kind: FaultKind): kind is MessageFault =>
  (MESSAGE_FAULTS as readonly FaultKind[]).includes(kind);

/** Meets the next message that it can be done to in any of these directions, and no other one. */
export function armFirst(directions: readonly FaultyDirection[], fault: MessageFault, met: () => void): void {
  const takeBacks = directions.map((direction) =>
    direction.arm(fault, () => {
      for (const takeBack of takeBacks) takeBack();
      met();
    }),
  );
}

/** `met` is called when it happened. */
export interface MetFault {
  fault: MessageFault;
  met: () => void;
}

export class FaultyDirection {
  readonly #deliver: (message: PeerMessage) => void;
  #armed: MetFault[] = [];
  /** In the order in which they will arrive: those that are late, and what waits behind them. */
  #late: PeerMessage[] = [];
  /** Of these, the ones that nobody has let go. */
  readonly #held = new Set<PeerMessage>();
  #overtaken: PeerMessage | null = null;
  /** The slab through which the sender's chunks go; null before its handshake. */
  #slab: { bytes: SharedArrayBuffer; slotBytes: number } | null = null;

  constructor(deliver: (message: PeerMessage) => void) {
    this.#deliver = deliver;
  }

  /** Meets the next message that it can be done to; `met` is called when it did. Returns how to take it back. */
  arm(fault: MessageFault, met: () => void): () => void {
    const armed = { fault, met };
    this.#armed.push(armed);
    return () => {
      this.#armed = this.#armed.filter((each) => each !== armed);
    };
  }

  /** What is late or overtaken arrives now, and nothing more happens to later ones. */
  heal(): void {
    this.#armed = [];
    const late = [...this.#late, ...(this.#overtaken ? [this.#overtaken] : [])];
    this.#late = [];
    this.#held.clear();
    this.#overtaken = null;
    for (const message of late) this.#deliver(message);
  }

  /** A late one is late enough: it arrives after those before it, and what waits behind it up to the next late one. */
  letGo(message: PeerMessage): void {
    this.#held.delete(message);
    while (this.#late.length > 0 && !this.#held.has(this.#late[0]!)) this.#deliver(this.#late.shift()!);
  }

  /** `drawn`: happens to this one if nothing armed does. */
  pass(message: PeerMessage, drawn: MetFault | null = null): void {
    if (message.kind === 'welcome') this.#slab = { bytes: message.slab, slotBytes: message.slotBytes };
    const index = this.#armed.findIndex(({ fault }) => suits(fault, message));
    const fault = index < 0 ? drawn : this.#armed.splice(index, 1)[0];
    fault?.met();
    switch (fault?.fault) {
      case 'delay':
        this.#held.add(message);
        break;
      case 'lose':
      case 'lose-notice':
        return;
      case 'repeat':
        this.#arrive(message);
        break;
      case 'truncate':
        this.#arrive(cut(message));
        return;
      case 'flip':
        this.#flip(message);
        break;
      case 'reorder':
        if (this.#overtaken) break;
        this.#overtaken = message;
        return;
      case undefined:
        break;
    }
    this.#arrive(message);
    const overtaken = this.#overtaken;
    this.#overtaken = null;
    if (overtaken) this.#arrive(overtaken);
  }

  #arrive(message: PeerMessage): void {
    if (this.#late.length > 0 || this.#held.has(message)) this.#late.push(message);
    else this.#deliver(message);
  }

  #flip(message: PeerMessage): void {
    if (message.kind !== 'chunk' || !this.#slab) return;
    const { bytes, slotBytes } = this.#slab;
    const slot = new Uint8Array(bytes, message.slot * slotBytes, message.byteLength);
    // The high exponent bit of the first key's first value, f16 or the low half of an f32.
    slot[1] = slot[1]! ^ 0x40;
  }
}

/** Whether it can be done to this message. */
export function suits(fault: MessageFault, message: PeerMessage): boolean {
  if (fault === 'lose-notice') return isNotification(message);
  if (fault === 'flip') return message.kind === 'chunk';
  return true;
}

const isNotification = (message: PeerMessage): message is NotificationMessage =>
  message.kind === 'notification';

/** The first half of its fields, as a stream that ended early would leave them. */
function cut(message: PeerMessage): PeerMessage {
  const fields = Object.entries(message);
  return Object.fromEntries(fields.slice(0, Math.ceil(fields.length / 2))) as unknown as PeerMessage;
}
