/** Checks that a value received over a channel is a complete message: a peer's mistake must not throw in our thread. */
import type { PeerMessage } from './messages.ts';

type Fields = Readonly<Record<string, 'number' | 'string' | 'object'>>;

const transfer: Fields = { epoch: 'number', transferId: 'string' };
const asked: Fields = {
  ...transfer,
  remoteRequestId: 'string',
  claim: 'object',
  requestId: 'string',
  postedAt: 'number',
};

/** Required fields of each message. The handshake itself checks the contents of a welcome (welcome-check.ts). */
const FIELDS: Readonly<Record<PeerMessage['kind'], Fields>> = {
  hello: { epoch: 'number', identity: 'object', maxChunkBytes: 'number' },
  welcome: { epoch: 'number' },
  read: { ...asked, blockIds: 'object' },
  stream: { ...asked, blockIndexes: 'object' },
  chunk: {
    ...transfer,
    index: 'number',
    slot: 'number',
    byteLength: 'number',
    group: 'number',
    first: 'number',
    count: 'number',
    times: 'object',
    descriptors: 'number',
  },
  alive: transfer,
  credit: { ...transfer, slot: 'number', index: 'number' },
  cancel: transfer,
  read_ended: { ...transfer, outcome: 'string', message: 'string' },
  notification: { notification: 'object', postedAt: 'number' },
};

export function isWellFormed(message: unknown): message is PeerMessage {
  if (message === null || typeof message !== 'object' || !('kind' in message)) return false;
  const { kind } = message;
  if (typeof kind !== 'string' || !Object.hasOwn(FIELDS, kind)) return false;
  const fields = message as Readonly<Record<string, unknown>>;
  return Object.entries(FIELDS[kind as PeerMessage['kind']]).every(
    ([name, type]) => typeof fields[name] === type && fields[name] !== null,
  );
}
