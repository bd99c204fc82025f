/**
 * Channels between engines' transports with faults in them. Every message passes through the thread that creates the
 * channels.
 */
import type { EngineWire } from '../transport/channel.ts';
import type { PeerMessage } from '../transport/messages.ts';
import { armFirst, FaultyDirection, type MessageFault, type MetFault } from './messages.ts';

/** What happens to a message that no armed fault applies to. `late`: resolves when a late message may arrive. */
type Chosen = (MetFault & { late: () => Promise<void> }) | null;

export class FaultyWires {
  readonly #choose: (sender: string, message: PeerMessage) => Chosen;
  /** By sending engine. */
  readonly #directions = new Map<string, Set<FaultyDirection>>();

  /** `choose`: called for every message with its sender; the fault that it returns must suit the message. */
  constructor(choose: (sender: string, message: PeerMessage) => Chosen = () => null) {
    this.#choose = choose;
  }

  /** Creates the channel of a pair of engines. For ClusterHooks.wire. */
  readonly wire: EngineWire = (a, b) => {
    const ofA = new MessageChannel();
    const ofB = new MessageChannel();
    this.#relay(a.engineId, ofA.port2, ofB.port2);
    this.#relay(b.engineId, ofB.port2, ofA.port2);
    return [ofA.port1, ofB.port1];
  };

  /** Applies to the next suitable message that the engine sends to any other. */
  arm(engineId: string, fault: MessageFault, met: () => void): void {
    armFirst([...(this.#directions.get(engineId) ?? [])], fault, met);
  }

  heal(): void {
    for (const direction of this.#all()) direction.heal();
  }

  /** Delivers late and overtaken messages now; armed faults stay. */
  deliverLate(): void {
    for (const direction of this.#all()) direction.deliverLate();
  }

  #all(): FaultyDirection[] {
    return [...this.#directions.values()].flatMap((directions) => [...directions]);
  }

  #relay(sender: string, from: MessagePort, to: MessagePort): void {
    const direction = new FaultyDirection((message) => to.postMessage(message));
    const all = this.#directions.get(sender) ?? new Set();
    this.#directions.set(sender, all.add(direction));
    from.addEventListener('message', (event) => {
      const message = event.data as PeerMessage;
      const chosen = this.#choose(sender, message);
      direction.pass(message, chosen);
      if (chosen?.fault === 'delay') void chosen.late().then(() => direction.letGo(message));
    });
    from.addEventListener('close', () => {
      all.delete(direction);
      to.close();
    });
    from.start();
  }
}
