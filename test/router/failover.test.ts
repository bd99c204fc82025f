import { expect, test } from 'vitest';
import type { RequestOutput } from '../../src/engine/types.ts';
import {
  EngineDeadError,
  InternalError,
  RefusedError,
  RequestError,
  TransferError,
} from '../../src/errors.ts';
import { withFailover } from '../../src/router/failover.ts';
import type { TimedOutput } from '../../src/router/output-stream.ts';

async function* way(tokenIds: number[], failure: Error | null): AsyncGenerator<TimedOutput> {
  for (const [i, tokenId] of tokenIds.entries()) {
    const tokens = [{ requestId: 'r', tokenId, logitsDigest: '', logits: null }];
    const last = i === tokenIds.length - 1 && !failure;
    const finish = { reason: 'length', error: null, kvTransferParams: null, numPreemptions: 0 } as const;
    const times = { arrivalMs: 0, queuedMs: 0, scheduledMs: 0 };
    const output: RequestOutput = {
      requestId: 'r',
      tokens,
      prompt: null,
      times,
      finish: last ? finish : null,
    };
    yield { output, atMs: 0 };
  }
  if (failure) throw failure;
}

async function served(ways: AsyncGenerator<TimedOutput>[]): Promise<number[]> {
  const tokenIds: number[] = [];
  const [first, ...others] = ways;
  for await (const { output } of withFailover(first!, () => others.shift() ?? null))
    tokenIds.push(...output.tokens.map(({ tokenId }) => tokenId));
  return tokenIds;
}

test('failover keeps the tokens given so far, and continues after them on the next way', async () => {
  const dead = new EngineDeadError('dead');
  expect(await served([way([1, 2], dead), way([1, 2, 3, 4], null)])).toEqual([1, 2, 3, 4]);
  const ways = [way([], new TransferError('lost')), way([1, 2], dead), way([1, 2, 3], null)];
  expect(await served(ways)).toEqual([1, 2, 3]);
  expect(await served([way([], new RefusedError('not held')), way([1], null)])).toEqual([1]);
});

test('a failure is thrown if no other way is left, and a refusal by the first way always', async () => {
  await expect(served([way([1], new EngineDeadError('dead'))])).rejects.toThrow(EngineDeadError);
  await expect(served([way([], new RequestError('no')), way([1], null)])).rejects.toThrow(RequestError);
});

test('after a failure a refusal leads to the next way, and the failure is thrown if there is none', async () => {
  const [dead, small] = [new EngineDeadError('dead'), new RequestError('too small')];
  expect(await served([way([1], dead), way([], small), way([1, 2], null)])).toEqual([1, 2]);
  await expect(served([way([1], dead), way([], small)])).rejects.toBe(dead);
  const lost = new TransferError('lost');
  await expect(served([way([1], dead), way([], small), way([], lost)])).rejects.toBe(lost);
});

test('a different token at a position that was already given throws an internal error', async () => {
  const ways = [way([1, 2], new EngineDeadError('dead')), way([1, 7, 3], null)];
  await expect(served(ways)).rejects.toThrow(InternalError);
});
