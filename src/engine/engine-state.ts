/** What an engine tells of itself and of its requests. */
import type { BlockIds, RequestStatus } from './types.ts';

export interface EngineCoreStats {
  running: number;
  waiting: number;
  waitingForRemote: number;
  /** Ended requests whose blocks stay: for a reader, or until a load into them ended. */
  heldRequests: number;
  freeBlocks: number;
  /** The null block does not count. */
  usedBlocks: number;
  /** The null block counts. */
  numBlocks: number;
  preemptions: number;
  steps: number;
  /** Steps that ran the model. */
  forwardPasses: number;
  /** Tokens asked for, and found, at each request's first admission. */
  prefixCache: { queries: number; hits: number };
  externalPrefixCache: { queries: number; hits: number };
}

export interface RequestState {
  status: RequestStatus;
  /** Tokens with KV in its blocks; while a load is under way, those that will have it. */
  numComputedTokens: number;
  numPreemptions: number;
  heldFor: 'load' | 'reader' | null;
  blockIds: BlockIds;
}
