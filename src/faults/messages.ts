/**
 * Faults of messages in one direction of one pair of engines: lost, late, repeated, overtaken by the next, truncated,
 * or with a bit flipped in their part of the slab. Handles messages as they come, without ports or timers.
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

/** Arms the fault in all directions; it applies once, to the first message in any of them that it suits. */
export function armFirst(directions: readonly FaultyDirection[], fault: MessageFault, met: () => void): void {
  const takeBacks = directions.map((direction) =>
    direction.arm(fault, () => {
      for (const takeBack of takeBacks) takeBack();
      met();
    }),
  );
}

/** `met`: called when the fault has been applied. */
export interface MetFault {
  fault: MessageFault;
  met: () => void;
}

export class FaultyDirection {
  readonly #deliver: (message: PeerMessage) => void;
  #armed: MetFault[] = [];
  /** Messages that are late or wait behind late ones, in the order in which they will arrive. */
  #late: PeerMessage[] = [];
  /** Those of #late that letGo() has not released. */
  readonly #held = new Set<PeerMessage>();
  #overtaken: PeerMessage | null = null;
  /** The slab through which the sender's chunks pass; null before its handshake. */
  #slab: { bytes: SharedArrayBuffer; slotBytes: number } | null = null;

  constructor(deliver: (message: PeerMessage) => void) {
    this.#deliver = deliver;
  }

  /** Applies the fault to the next message that it suits, then calls `met`. Returns a function that disarms it. */
  arm(fault: MessageFault, met: () => void): () => void {
    const armed = { fault, met };
    this.#armed.push(armed);
    return () => {
      this.#armed = this.#armed.filter((each) => each !== armed);
    };
  }

  /** Disarms all faults, and delivers late and overtaken messages. */
  heal(): void {
    this.#armed = [];
    this.deliverLate();
  }

  /** Delivers late and overtaken messages now. */
  deliverLate(): void {
    const late = [...this.#late, ...(this.#overtaken ? [this.#overtaken] : [])];
    this.#late = [];
    this.#held.clear();
    this.#overtaken = null;
    for (const message of late) this.#deliver(message);
  }

  /**
   * Releases a late message: it arrives after those before it, followed by what waits behind it up to the next late
   * one.
   */
  letGo(message: PeerMessage): void {
    this.#held.delete(message);
    while (this.#late.length > 0 && !this.#held.has(this.#late[0]!)) this.#deliver(this.#late.shift()!);
  }

  /** `drawn`: applied to this message if no armed fault is. */
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
    // The high exponent bit of the first key's first value: of the f16, or of the low half of the f32.
    slot[1] = slot[1]! ^ 0x40;
  }
}

/** Whether the fault can be applied to this message. */
export function suits(fault: MessageFault, message: PeerMessage): boolean {
  if (fault === 'lose-notice') return isNotification(message);
  if (fault === 'flip') return message.kind === 'chunk';
  return true;
}

const isNotification = (message: PeerMessage): message is NotificationMessage =>
  message.kind === 'notification';

/** The first half of the message's fields, as a stream that ended early would leave them. */
function cut(message: PeerMessage): PeerMessage {
  const fields = Object.entries(message);
  return Object.fromEntries(fields.slice(0, Math.ceil(fields.length / 2))) as unknown as PeerMessage;
}
