/** Ids of requests at the engines. They cross the wire as remote_request_id, and part of what keeps a hold from strangers is that nobody can guess them. */
import { bytesToHex } from '@noble/hashes/utils.js';

/** 128 random bits behind what the request is called here, as vLLM puts some behind a client's id. */
export const unguessable = (name: string): string =>
  `${name}-${bytesToHex(crypto.getRandomValues(new Uint8Array(16)))}`;
