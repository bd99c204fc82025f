/** Checks that the scheduler's queues, the block tables and the holds agree. Used in tests and at the end of every run. */
import { invariant } from '../../errors.ts';
import type { KvCacheManager } from '../kv-cache-manager.ts';
import type { Request } from '../request.ts';
import type { PolicyDeps } from '../scheduler.ts';
import type { BlockIds } from '../types.ts';

type QueueName = 'waiting' | 'loading' | 'loaded' | 'running' | 'held';

/** Throws InternalError unless every request is in exactly one queue, the one of its status, with the blocks it needs. */
export function checkQueues({ queues, cache }: Pick<PolicyDeps, 'queues' | 'cache'>): void {
  const { known, waiting, loading, loaded, running, held } = queues;
  const seen = new Set<string>();
  for (const [queue, requests] of Object.entries({ waiting, loading, loaded, running, held })) {
    for (const request of requests) {
      const { requestId } = request;
      invariant(!seen.has(requestId), () => `${requestId} is in two queues, one of them ${queue}`);
      seen.add(requestId);
      invariant(known.get(requestId) === request, () => `${requestId} is ${queue} and unknown`);
      checkRequest(request, queue as QueueName, cache);
    }
  }
  invariant(seen.size === known.size, () => `${known.size} requests are known, ${seen.size} are in a queue`);
  for (const id of cache.owners()) invariant(seen.has(id), () => `${id} has blocks and is in no queue`);
}

function checkRequest(request: Request, queue: QueueName, cache: KvCacheManager): void {
  const { requestId, status } = request;
  const fits = {
    waiting: status === 'waiting' || status === 'preempted',
    loading: status === 'waiting_for_remote_kvs',
    loaded: status === 'waiting',
    running: status === 'running',
    held: request.isFinished && request.heldFor !== null,
  };
  invariant(fits[queue], () => `${requestId} is ${queue} with status ${status}`);
  const hasBlocks = cache.hasBlocks(request);
  invariant(
    hasBlocks === (queue !== 'waiting'),
    () => `${requestId} is ${queue} and has ${hasBlocks ? '' : 'no '}blocks`,
  );
  const needed = cache.blocksFor(request.numComputedTokens);
  for (const ids of cache.blockIds(request)) {
    invariant(
      ids.length >= needed || queue === 'waiting',
      () => `${requestId} has ${ids.length} blocks for ${request.numComputedTokens} tokens`,
    );
  }
  if (queue !== 'running' && queue !== 'loaded') return;
  const { numComputedTokens, numTokens } = request;
  invariant(
    cache.sees(request, Math.min(numComputedTokens, numTokens - 1), numComputedTokens),
    () => `${requestId} does not have what a window sees at ${numComputedTokens} tokens`,
  );
}

/** Throws InternalError unless each hold belongs to a request that is kept for a reader and lists only its blocks. */
export function checkHolds(
  holds: readonly { requestId: string; blockIds: BlockIds }[],
  { queues, cache }: Pick<PolicyDeps, 'queues' | 'cache'>,
): void {
  for (const { requestId, blockIds } of holds) {
    const request = queues.known.get(requestId);
    invariant(request?.heldFor === 'reader', () => `${requestId} is held by the worker side alone`);
    const table = cache.blockIds(request);
    blockIds.forEach((ids, group) => {
      const own = new Set(table[group]);
      const stray = ids.find((id) => !own.has(id));
      invariant(stray === undefined, () => `${requestId} holds block ${stray}, which is not in its table`);
    });
  }
}
