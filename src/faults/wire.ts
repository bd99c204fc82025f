/** Channels between engines' transports with faults in them: every message passes the thread that makes the wire. */
import type { EngineWire } from '../transport/channel.ts';
import type { PeerMessage } from '../transport/messages.ts';
import { FaultyDirection, type MessageFault } from './messages.ts';

export class FaultyWires {
  /** By the engine that sends. */
  readonly #directions = new Map<string, Set<FaultyDirection>>();

  /** Makes each pair's channel; for a cluster's `wire`. */
  readonly wire: EngineWire = (a, b) => {
    const ofA = new MessageChannel();
    const ofB = new MessageChannel();
    this.#relay(a.engineId, ofA.port2, ofB.port2);
    this.#relay(b.engineId, ofB.port2, ofA.port2);
    return [ofA.port1, ofB.port1];
  };

  /** Meets the next message that the engine sends to any other. */
  arm(engineId: string, fault: MessageFault, met: () => void): void {
    for (const direction of this.#directions.get(engineId) ?? []) direction.arm(fault, met);
  }

  heal(): void {
    for (const directions of this.#directions.values()) for (const direction of directions) direction.heal();
  }

  #relay(sender: string, from: MessagePort, to: MessagePort): void {
    const direction = new FaultyDirection((message) => to.postMessage(message));
    const all = this.#directions.get(sender) ?? new Set();
    this.#directions.set(sender, all.add(direction));
    from.addEventListener('message', (event) => direction.pass(event.data as PeerMessage));
    from.addEventListener('close', () => {
      all.delete(direction);
      to.close();
    });
    from.start();
  }
}
