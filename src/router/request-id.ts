/**
 * Ids of requests at the engines. They cross the wire as remote_request_id. A hold is protected partly by nobody
 * being able to guess them.
 */
import { bytesToHex } from '@noble/hashes/utils.js';

/** Appends 128 random bits to the name, as vLLM appends some to a client's id. */
export const unguessable = (name: string): string =>
  `${name}-${bytesToHex(crypto.getRandomValues(new Uint8Array(16)))}`;
