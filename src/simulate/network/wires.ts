/**
 * Faults on messages between simulated engines: those of real channels (src/faults/messages.ts), on messages that carry
 * nothing. What a message brings about happens when it arrives.
 */
import { armFirst, FaultyDirection, type MessageFault } from '../../faults/messages.ts';
import type { PeerMessage } from '../../transport/messages.ts';

export type MessageKind = 'notification' | 'read' | 'chunk';
/** How a message arrived: as it was sent, with a bit of its contents flipped, or cut short, so that it cannot be read. */
export type Arrival = 'whole' | 'damaged' | 'cut short';

const SLOT_BYTES = 16;

/** Only the fields that faults look at, after one that a message keeps when it is cut short. */
interface SentMessage {
  arrive: (how: Arrival) => void;
  kind: MessageKind;
  slot: number;
  byteLength?: number;
}

interface Direction {
  faulty: FaultyDirection;
  slab: Uint8Array;
}

export class SimulatedWires {
  /** Directions by sender, then receiver. */
  readonly #directions = new Map<string, Map<string, Direction>>();
  /** Ids of the engines that an engine may send to. */
  readonly #others: (engineId: string) => readonly string[];

  constructor(others: (engineId: string) => readonly string[]) {
    this.#others = others;
  }

  /** The fault applies to the next message that the engine sends to any other; `met` is called then. */
  arm(engineId: string, fault: MessageFault, met: () => void): void {
    const directions = this.#others(engineId).map((other) => this.#between(engineId, other).faulty);
    armFirst(directions, fault, met);
  }

  heal(): void {
    for (const direction of this.#all()) direction.heal();
  }

  /** Delivers late and overtaken messages now; armed faults stay. */
  deliverLate(): void {
    for (const direction of this.#all()) direction.deliverLate();
  }

  /** `arrive`: called each time the message arrives. */
  send(from: string, to: string, kind: MessageKind, arrive: (how: Arrival) => void): void {
    const { faulty, slab } = this.#between(from, to);
    slab.fill(0);
    const message: SentMessage = { arrive, kind, slot: 0, byteLength: SLOT_BYTES };
    faulty.pass(message as unknown as PeerMessage);
  }

  #all(): FaultyDirection[] {
    return [...this.#directions.values()].flatMap((ofSender) =>
      [...ofSender.values()].map(({ faulty }) => faulty),
    );
  }

  #between(from: string, to: string): Direction {
    const ofSender = this.#directions.get(from) ?? new Map<string, Direction>();
    this.#directions.set(from, ofSender);
    const known = ofSender.get(to);
    if (known) return known;
    const slab = new SharedArrayBuffer(SLOT_BYTES);
    const bytes = new Uint8Array(slab);
    const direction = {
      slab: bytes,
      faulty: new FaultyDirection((message) => {
        if (message.kind === 'welcome') return;
        const { arrive, byteLength } = message as unknown as SentMessage;
        if (byteLength === undefined) arrive('cut short');
        else arrive(bytes.some((byte) => byte !== 0) ? 'damaged' : 'whole');
      }),
    };
    direction.faulty.pass({ kind: 'welcome', slab, slotBytes: SLOT_BYTES } as PeerMessage);
    ofSender.set(to, direction);
    return direction;
  }
}
