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

test('what was given stands, and the next way goes on after it', async () => {
  const dead = new EngineDeadError('dead');
  expect(await served([way([1, 2], dead), way([1, 2, 3, 4], null)])).toEqual([1, 2, 3, 4]);
  const ways = [way([], new TransferError('lost')), way([1, 2], dead), way([1, 2, 3], null)];
  expect(await served(ways)).toEqual([1, 2, 3]);
  expect(await served([way([], new RefusedError('not held')), way([1], null)])).toEqual([1]);
});

test('without another way the failure is thrown; a refusal is, whatever ways there are', async () => {
  await expect(served([way([1], new EngineDeadError('dead'))])).rejects.toThrow(EngineDeadError);
  await expect(served([way([], new RequestError('no')), way([1], null)])).rejects.toThrow(RequestError);
});

test('after a failure a refusal is the engine’s own: the next is asked, and the failure is told when none takes it', async () => {
  const [dead, small] = [new EngineDeadError('dead'), new RequestError('too small')];
  expect(await served([way([1], dead), way([], small), way([1, 2], null)])).toEqual([1, 2]);
  await expect(served([way([1], dead), way([], small)])).rejects.toBe(dead);
  const lost = new TransferError('lost');
  await expect(served([way([1], dead), way([], small), way([], lost)])).rejects.toBe(lost);
});

test('another token in the same place is a fault, never an answer', async () => {
  const ways = [way([1, 2], new EngineDeadError('dead')), way([1, 7, 3], null)];
  await expect(served(ways)).rejects.toThrow(InternalError);
});
