/**
 * Faults on messages between simulated engines: those of real channels (src/faults/messages.ts), on messages that carry
 * nothing. What a message brings about happens when it arrives.
 */
import { armFirst, FaultyDirection, type MessageFault } from '../../faults/messages.ts';
import type { PeerMessage } from '../../transport/messages.ts';

export type MessageKind = 'notification' | 'read' | 'chunk';

const SLOT_BYTES = 16;

interface Direction {
  faulty: FaultyDirection;
  slab: Uint8Array;
}

export class SimulatedWires {
  /** Directions by sender, then receiver. */
  readonly #directions = new Map<string, Map<string, Direction>>();
  readonly #arrivals = new WeakMap<PeerMessage, (damaged: boolean) => void>();
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

  /** `arrive`: called each time the message arrives; `damaged`: a bit of its contents was flipped. */
  send(from: string, to: string, kind: MessageKind, arrive: (damaged: boolean) => void): void {
    const { faulty, slab } = this.#between(from, to);
    slab.fill(0);
    const message = messageOf(kind);
    this.#arrivals.set(message, arrive);
    faulty.pass(message);
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
      // A message that was cut short is not found here, and does not arrive.
      faulty: new FaultyDirection((message) =>
        this.#arrivals.get(message)?.(bytes.some((byte) => byte !== 0)),
      ),
    };
    direction.faulty.pass({ kind: 'welcome', slab, slotBytes: SLOT_BYTES } as PeerMessage);
    ofSender.set(to, direction);
    return direction;
  }
}

/** Only the fields that faults look at. */
const messageOf = (kind: MessageKind): PeerMessage =>
  ({ kind, slot: 0, byteLength: SLOT_BYTES }) as unknown as PeerMessage;
