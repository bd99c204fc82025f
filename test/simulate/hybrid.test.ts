/** Simulated fleets of a model with sliding windows in some layers. */
import { describe, expect, it } from 'vitest';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { greedy, simulated, turn } from './simulated.ts';

const groups: readonly KvCacheSpec[] = [{ kind: 'sliding', window: 64 }, { kind: 'full' }];
const BLOCK_BYTES = 16_000;
const prompt = Array.from({ length: 320 }, (_, i) => 8 + (i % 400));
const ask = (conversationId: string) => ({ conversationId, promptTokenIds: prompt, sampling: greedy(4) });

describe('a simulated model with sliding windows', () => {
  it.each([false, true])('hands over what its windows see, or all KV if kept (%s)', async (allFullKv) => {
    const cluster = simulated({ options: { allFullKv } }, {}, { groups });
    const kept = allFullKv ? groups.map(() => ({ kind: 'full' as const })) : groups;
    const { transfer } = await cluster.run(turn(cluster, ask('a')));
    expect(transfer.pToD!.bytes).toBe(kvBytesOf(16, BLOCK_BYTES, kept)(0, 320, 319));
  });

  it('has its TTFT predicted by the bytes that move', async () => {
    const costs = { moveFixedMs: 0, moveMsPerByte: 1, prefillFixedMs: 0, prefillMsPerToken: 0 };
    const rest = {
      prefillMsPerTokenContext: 0,
      moveMsPerHolderRequest: 0,
      firstStepMs: 0,
      firstStepMsPerRequest: 0,
    };
    const routing = { name: 'least-ttft', parameters: { 'least-ttft': { ...costs, ...rest } } };
    const cluster = simulated({ options: { routing } }, {}, { groups });
    const { routed, transfer } = await cluster.run(turn(cluster, ask('a')));
    expect(routed!.predictedTtftMs).toBeCloseTo(transfer.pToD!.bytes, 3);
  });

  it('finds a prefix by its full group after blocks before the window were freed', async () => {
    // Room for the full group's 20 blocks and few more: the prompt itself reuses the blocks of its first windows.
    const options = { maxNumBatchedTokens: 32, routing: { name: 'least-ttft', parameters: {} } };
    const stepMs = ({ prefillTokens }: { prefillTokens: number }) => 0.1 * prefillTokens;
    const cluster = simulated({ blocks: 34, options }, { stepMs }, { groups });
    const ttftMs: number[] = [];
    for (const conversation of ['a', 'b']) {
      const { routed } = await cluster.run(turn(cluster, ask(conversation)));
      await cluster.run(cluster.endConversation(conversation));
      ttftMs.push(routed!.predictedTtftMs!);
    }
    // 32 ms for all, 1.6 for the last block.
    expect(ttftMs[0]).toBeGreaterThan(30);
    expect(ttftMs[1]).toBeLessThan(10);
  });

  it.each([
    ['windows first', false, [...groups]],
    ['windows last', false, groups.toReversed()],
    ['all KV kept', true, [...groups]],
  ])('streams what each step computed, for every group (%s)', async (_, allFullKv, inOrder) => {
    let chunks = 0;
    const readMs = (bytes: number) => {
      chunks++;
      return bytes / BLOCK_BYTES;
    };
    const stepMs = ({ prefillTokens }: { prefillTokens: number }) => 1 + 0.5 * prefillTokens;
    const options = { maxNumBatchedTokens: 64, handover: 'streamed' as const, allFullKv };
    const cluster = simulated({ blocks: 400, options }, { stepMs, readMs }, { groups: inOrder });
    const promptTokenIds = Array.from({ length: 960 }, (_, i) => 8 + (i % 400));
    const { ttftMs } = await cluster.run(turn(cluster, { ...ask('a'), promptTokenIds }));
    // One chunk per step of P, the last of which is small; after it, two blocks are left to read, and D's own step.
    expect([chunks, ttftMs]).toEqual([16, 499]);
  });
});
