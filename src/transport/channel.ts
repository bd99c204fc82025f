/** Typed messages over a MessagePort. Detects when the other end is gone. Does not interpret messages. */

import { isWellFormed } from './message-check.ts';
import type { PeerMessage } from './messages.ts';
import type { RemoteAddress } from './types.ts';

/** Creates the two ends of a channel between the transports of two engines. Fault injection replaces this. */
export type EngineWire = (a: RemoteAddress, b: RemoteAddress) => [MessagePort, MessagePort];

export const plainWire: EngineWire = () => {
  const { port1, port2 } = new MessageChannel();
  return [port1, port2];
};

export interface ChannelListener {
  onMessage(message: PeerMessage): void;
  /** Something unreadable arrived: a message was lost, and it is not known which. */
  onUnreadable(reason: string): void;
  /** The other end is gone. Called at most once, never after close(). */
  onGone(reason: string): void;
}

export class Channel {
  readonly #port: MessagePort;
  readonly #listener: ChannelListener;
  #open = true;

  /** Takes ownership of the port: nothing else may post to it or close it. */
  constructor(port: MessagePort, listener: ChannelListener) {
    this.#port = port;
    this.#listener = listener;
    port.addEventListener('message', this.#onMessage);
    port.addEventListener('messageerror', this.#onMessageError);
    port.addEventListener('close', this.#onClose);
    port.start();
  }

  post(message: PeerMessage): void {
    if (this.#open) this.#port.postMessage(message);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#port.removeEventListener('message', this.#onMessage);
    this.#port.removeEventListener('messageerror', this.#onMessageError);
    this.#port.removeEventListener('close', this.#onClose);
    this.#port.close();
  }

  #onMessage = (event: MessageEvent): void => {
    const message: unknown = event.data;
    if (isWellFormed(message)) this.#listener.onMessage(message);
    else this.#listener.onUnreadable('it sent something that is not a message of this protocol');
  };

  #onMessageError = (): void => this.#listener.onUnreadable('it sent a message that cannot be read here');

  #onClose = (): void => {
    this.close();
    this.#listener.onGone('its end of the channel was closed');
  };
}
