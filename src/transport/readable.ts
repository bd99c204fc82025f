/** Whether what came over a channel is a message, whole: a peer's mistake must not throw in the thread that it reaches. */
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

/** What each cannot do without. What a handshake brings is judged there, whole. */
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

export function isReadable(message: unknown): message is PeerMessage {
  if (message === null || typeof message !== 'object' || !('kind' in message)) return false;
  const { kind } = message;
  if (typeof kind !== 'string' || !Object.hasOwn(FIELDS, kind)) return false;
  const fields = message as Readonly<Record<string, unknown>>;
  return Object.entries(FIELDS[kind as PeerMessage['kind']]).every(
    ([name, type]) => typeof fields[name] === type && fields[name] !== null,
  );
}
