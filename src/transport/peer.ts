/** One other engine: the channel to it, our reader half, our holder half, and whether it is alive. */

import { Channel } from './channel.ts';
import type { HolderHalf } from './holder.ts';
import type { NotificationMessage, PeerMessage } from './messages.ts';
import type { ReaderHalf } from './reader.ts';
import type { RemoteAddress } from './types.ts';

export interface PeerDeps {
  port: MessagePort;
  address: RemoteAddress;
  makeReader: (post: (message: PeerMessage) => void) => ReaderHalf;
  makeHolder: (post: (message: PeerMessage) => void) => HolderHalf;
  onNotification: (message: NotificationMessage) => void;
  /** Called once: when the other end of the channel is gone, or by end(). */
  onEnd: () => void;
}

export class Peer {
  readonly address: RemoteAddress;
  readonly reader: ReaderHalf;
  readonly holder: HolderHalf;
  readonly #channel: Channel;
  readonly #onNotification: (message: NotificationMessage) => void;
  readonly #onEnd: () => void;
  /** Why it is dead; null while it is alive. */
  #deadBecause: string | null = null;

  constructor(deps: PeerDeps) {
    this.address = deps.address;
    this.#onNotification = deps.onNotification;
    this.#onEnd = deps.onEnd;
    const post = (message: PeerMessage) => this.#channel.post(message);
    this.reader = deps.makeReader(post);
    this.holder = deps.makeHolder(post);
    this.#channel = new Channel(deps.port, {
      onMessage: (message) => this.#dispatch(message),
      onUnreadable: (reason) => this.#disconnect(reason),
      onGone: (reason) => this.end(`engine '${deps.address.engineId}' ended: ${reason}.`),
    });
  }

  get deadBecause(): string | null {
    return this.#deadBecause;
  }

  notify(message: NotificationMessage): void {
    this.#channel.post(message);
  }

  /** Ends all transfers both ways, drops the slabs and closes the channel. Idempotent. */
  end(reason: string): void {
    if (this.#deadBecause !== null) return;
    this.#deadBecause = reason;
    this.#channel.close();
    this.reader.end(reason);
    this.holder.close();
    this.#onEnd();
  }

  /** Drops both directions, since the lost message could belong to either. READs are repeated over a new connection. */
  #disconnect(reason: string): void {
    this.reader.disconnect(`the connection to engine '${this.address.engineId}' was given up: ${reason}.`);
    this.holder.disconnect('the holder got a message that it could not read, and ended the connection.');
  }

  #dispatch(message: PeerMessage): void {
    switch (message.kind) {
      case 'hello':
      case 'read':
      case 'stream':
      case 'credit':
      case 'cancel':
        this.holder.onMessage(message);
        break;
      case 'welcome':
      case 'chunk':
      case 'alive':
      case 'read_ended':
        this.reader.onMessage(message);
        break;
      case 'notification':
        this.#onNotification(message);
        break;
    }
  }
}
