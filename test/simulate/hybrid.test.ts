/** Simulated fleets of a model with sliding windows in some layers. */
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { storedTokens } from '../../src/measure/spans/stored-tokens.ts';
import { turnReport } from '../../src/router/turn-report.ts';
import { NAMED_COSTS } from '../../src/simulate/costs/published.ts';
import type { StepPlace, StepShape } from '../../src/simulate/costs/types.ts';
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

  it('fills its pool with what all groups keep of decoding requests', async () => {
    const poolUsed: number[] = [];
    const stepMs = ({ decodes }: StepShape, place: StepPlace) => {
      if (decodes > 0) poolUsed.push(place.poolUsed);
      return 1;
    };
    const cluster = simulated({ blocks: 201 }, { stepMs }, { groups });
    await cluster.run(turn(cluster, ask('a')));
    // Before the rows of the prompt's last token and three more: all tokens, and the window's from its first block on.
    const kept = [319 + 63, 320 + 64, 321 + 65, 322 + 66];
    expect(poolUsed).toEqual(kept.map((tokens) => tokens / (200 * 16)));
  });

  it('decodes as fast in a pool with more blocks, in the same proportion as more groups', async () => {
    const latencyMs: number[] = [];
    for (const count of [1, 3]) {
      const full = Array.from({ length: count }, () => ({ kind: 'full' as const }));
      const costs = NAMED_COSTS['dynamo-mocker']!;
      const cluster = simulated({ blocks: 1 + 40 * count }, costs, { groups: full });
      const { ttftMs, ...turned } = await cluster.run(turn(cluster, ask('a')));
      latencyMs.push(turned.latencyMs - ttftMs);
    }
    expect(latencyMs[1]).toBeCloseTo(latencyMs[0]!, 9);
  });

  it("reports how many of a turn's tokens came from a store, though their bytes differ from those pulled", async () => {
    const connector = {
      name: 'MultiConnector',
      multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
      offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
    } as const;
    const options = { prefill: { numBlocks: 200, enablePrefixCaching: false } };
    const cluster = simulated({ storeSlots: 100, connector, options }, {}, { groups });
    const result = await cluster.run(
      (async () => {
        const first = await turn(cluster, { ...ask('a'), sampling: greedy(100) });
        await cluster.clock.sleep(60_000);
        const promptTokenIds = [...prompt, ...first.outputTokenIds, ...prompt.slice(0, 30)];
        return turn(cluster, { ...ask('a'), promptTokenIds });
      })(),
    );
    const { loadedTokens } = cluster.engines[0]!.connector!.store!.counters;
    const report = turnReport('a', 2, result, [], null);
    expect(loadedTokens).toBe(320);
    expect([storedTokens(report), report.pulled_tokens]).toEqual([loadedTokens, 419]);
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

  const window = { kind: 'sliding' as const, window: 64 };
  it.each<[string, readonly KvCacheSpec[]]>([
    ['some layers', groups],
    ['all layers', [window]],
    ['no layers', [{ kind: 'full' }]],
  ])('is routed by what each engine could use of a prompt, with windows in %s', async (_, inLayers) => {
    const options = { routing: { name: 'prefix-cache', parameters: {} } };
    const fleet = { prefill: 2, decode: 2, blocks: 400, options };
    const cluster = simulated(fleet, {}, { groups: inLayers });
    const seen: number[][] = [];
    await cluster.run(
      (async () => {
        let history = prompt;
        for (const more of [7, 150, 30]) {
          const result = await turn(cluster, { ...ask('a'), promptTokenIds: history });
          const fresh = Array.from({ length: more }, (_, i) => 9 + i);
          history = [...history, ...result.outputTokenIds, ...fresh];
        }
        const branches = [100, 206, 330].map((shared) => [...history.slice(0, shared), 1, 2, 3]);
        for (const [i, promptTokenIds] of [history, ...branches].entries()) {
          const found = await Promise.all(
            cluster.engines.map(async (engine) => {
              const { hitTokens } = await engine.lookup(promptTokenIds, null);
              return [engine.engineId, hitTokens] as const;
            }),
          );
          const { routed } = await turn(cluster, { ...ask(`b${i}`), promptTokenIds });
          const known = routed!.candidates.map(({ engineId, cachedTokens }) => [engineId, cachedTokens]);
          expect(Object.fromEntries(known)).toEqual(Object.fromEntries(found));
          seen.push(found.map(([, tokens]) => tokens));
        }
      })(),
    );
    expect(seen.flat().filter((tokens) => tokens > 0).length).toBeGreaterThan(3);
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
