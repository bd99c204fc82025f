/** Describes what keeps a request from running, for messages to users. */
import { isStoreHandover, usesStore } from '../../config/connectors.ts';
import type { HeldBlocks } from '../kv-connector.ts';
import type { Request } from '../request.ts';
import { blocksOfAdmitted, type PolicyDeps } from '../scheduler.ts';
import { NULL_BLOCK } from '../types.ts';

/** null if the request is unknown or is not waiting, or if only P can say why (a streamed load). */
export function waitingReason(
  requestId: string,
  deps: Pick<PolicyDeps, 'queues' | 'cache' | 'config'>,
  holds: readonly HeldBlocks[],
): string | null {
  const { queues, cache, config } = deps;
  const request = queues.known.get(requestId);
  if (!request || request.isFinished || request.status === 'running') return null;
  if (request.status === 'waiting_for_remote_kvs') {
    // P is still computing it. If P is stuck, P gives the reason.
    if (request.kvTransferParams?.streamed) return null;
    return `waits for KV from ${sourceOf(request, config)}`;
  }
  if (request.isUnanswered) return 'waits for the connector to say what can be loaded';
  const hit = cache.hasBlocks(request) ? null : cache.getComputedBlocks(request);
  const needed = cache.maxBlocksNeeded(request, hit, hit?.numTokens ?? request.numComputedTokens);
  if (needed > cache.numFree) {
    const used = describeHolds(deps, holds) ?? 'other requests have them';
    return `waits for ${needed} blocks, ${cache.numFree} of ${cache.numUsable} are free: ${used}`;
  }
  const toCome = hit ? blocksOfAdmitted(queues, cache) : 0;
  if (needed + toCome > cache.numFree) {
    return `waits for ${needed} blocks, ${cache.numFree} of ${cache.numUsable} are free: requests admitted before it will take ${toCome}`;
  }
  // Loaded requests go first.
  const before = [...queues.loaded, ...queues.waiting].indexOf(request);
  if (before > 0) return `waits behind ${before} other request${before === 1 ? '' : 's'}`;
  const { maxNumSeqs } = config.scheduler;
  if (queues.numAdmitted >= maxNumSeqs) return `waits for one of ${maxNumSeqs} request slots (max_num_seqs)`;
  return 'waits for the next step';
}

/** With a store configured, a load may come from the peer, the store or both; which is not known here. */
function sourceOf({ kvTransferParams: params }: Request, { connector }: PolicyDeps['config']): string {
  const peer = isStoreHandover(params) ? null : params?.remote_engine_id;
  const hasStore = connector && usesStore(connector);
  if (!peer) return hasStore ? 'the store' : 'a remote engine';
  return hasStore ? `'${peer}' or the store` : `'${peer}'`;
}

/** E.g. "20 of 24 are held for D engine 'decode-0' until 14:03:10 UTC"; null if there are no holds. */
function describeHolds(
  { queues, cache }: Pick<PolicyDeps, 'queues' | 'cache'>,
  holds: readonly HeldBlocks[],
): string | null {
  if (holds.length === 0) return null;
  const blocks = new Set(
    holds.flatMap((hold) => hold.blockIds.flatMap((ids) => ids.filter((id) => id !== NULL_BLOCK))),
  );
  const until = new Map<string, number>();
  for (const { requestId, direction, deadline } of holds) {
    const reader = readerOf(queues.known.get(requestId) ?? null, direction);
    until.set(reader, Math.max(until.get(reader) ?? 0, deadline));
  }
  const readers = [...until].map(([reader, deadline]) => `for ${reader} until ${timeOfDay(deadline)}`);
  return `${blocks.size} of ${cache.numUsable} are held ${readers.join(', ')}`;
}

/** A hold does not record its reader. The engine that the request's own KV came from is the likely one. */
function readerOf(request: Request | null, direction: 'prefill' | 'decode'): string {
  const role = direction === 'prefill' ? 'D' : 'P';
  const engineId = request?.kvTransferParams?.remote_engine_id;
  return engineId ? `${role} engine '${engineId}'` : `a ${role} engine`;
}

function timeOfDay(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const parts = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  return `${parts.map((part) => String(part).padStart(2, '0')).join(':')} UTC`;
}
