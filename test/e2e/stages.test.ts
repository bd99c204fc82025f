import { describe, expect, it } from 'vitest';
import type { Mode } from '../../src/config/modes.ts';
import type { Span } from '../../src/measure/spans/spans.ts';
import { STAGES } from '../../src/measure/spans/stages.ts';
import { TraceWriter } from '../../src/measure/spans/trace.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { converse, generate, withCluster } from './cluster-fixture.ts';

const modes: Mode[] = ['monolithic', 'unidirectional', 'bidirectional'];

function expectWhole({ stagesMs, overlappedMs, ttftMs }: TurnResult): void {
  const parts = Object.entries(stagesMs);
  expect(parts.reduce((sum, [, ms]) => sum + ms, 0)).toBe(ttftMs);
  for (const [name, ms] of [...parts, ...Object.entries(overlappedMs)]) {
    expect(Object.keys(STAGES)).toContain(name);
    expect(ms).toBeGreaterThanOrEqual(0);
  }
}

/** A busy machine may suspend a thread between two spans, so one turn in ten may have more time in 'other'. */
function expectLittleUnknown(turns: readonly TurnResult[]): void {
  const vague = turns.filter(({ stagesMs, ttftMs }) => stagesMs.other! > Math.max(0.02 * ttftMs, 0.1));
  expect(vague.length).toBeLessThanOrEqual(turns.length / 10);
}

describe('the stages of real turns', () => {
  it("add up to TTFT in every mode, with almost nothing in 'other'", async () => {
    await withCluster({}, async (cluster) => {
      const turns: TurnResult[] = [];
      for (const mode of modes) {
        await cluster.setMode(mode);
        const results = (await converse(cluster, 'c', 4)).map(({ result }) => result);
        turns.push(...results);
        const last = results.at(-1)!.stagesMs;
        expect(last.prefill).toBeGreaterThan(0);
        expect('first_decode_step' in last).toBe(mode !== 'monolithic');
        expect('hand_over_scatter' in last).toBe(mode !== 'monolithic');
        expect('pull_scatter' in last).toBe(mode === 'bidirectional');
      }
      for (const turn of turns) expectWhole(turn);
      expectLittleUnknown(turns);
    });
  });

  it('add up to TTFT for requests that share batches, wait, and are preempted', async () => {
    const small = { numBlocks: 14, enablePrefixCaching: false };
    await withCluster({ decode: small, mode: 'monolithic' }, async (cluster) => {
      const before = (await cluster.stats()).reduce((sum, { preemptions }) => sum + preemptions, 0);
      const turns = await Promise.all(
        Array.from({ length: 5 }, (_, i) => {
          const promptTokenIds = Array.from({ length: 40 + 9 * i }, (_, n) => 9 + ((7 * n + i) % 400));
          const sampling = { maxTokens: 40, ignoreEos: true };
          return generate(cluster, { conversationId: `c${i}`, promptTokenIds, sampling });
        }),
      );
      const results = turns.map(({ result }) => result);
      for (const result of results) expectWhole(result);
      expectLittleUnknown(results);
      expect(Math.max(...results.map(({ stagesMs }) => stagesMs.queue_p ?? 0))).toBeGreaterThan(1);
      const after = (await cluster.stats()).reduce((sum, { preemptions }) => sum + preemptions, 0);
      expect(after).toBeGreaterThan(before);
    });
  });

  it('include the time of a failed pull that was replaced by computation', async () => {
    const fault = { engine: 'prefill', kind: 'flip-bit' } as const;
    await withCluster({ fault }, async (cluster) => {
      const results = (await converse(cluster, 'c', 2)).map(({ result }) => result);
      for (const result of results) expectWhole(result);
      expect(results[1]!.prompt.pulledTokens).toBe(0);
      expect(results[1]!.prompt.noPull?.reason).toContain('checksum');
      const { stagesMs } = results[1]!;
      expect(stagesMs.pull_readback! + stagesMs.pull_messages!).toBeGreaterThan(0);
      expectLittleUnknown(results);
    });
  });

  it('are traced as transfer spans with the same bytes and times as the turn result', async () => {
    await withCluster({}, async (cluster) => {
      const spans: Span[] = [];
      cluster.onSpan((span) => spans.push(span));
      const results = (await converse(cluster, 'c', 3)).map(({ result }) => result);
      const moved = (from: string, to: string) =>
        spans.filter(({ name, way }) => name === 'transfer' && way?.from === from && way.to === to);
      const pulls = moved('decode-0', 'prefill-0');
      const handOvers = moved('prefill-0', 'decode-0');
      const times = (list: readonly Span[]) => list.map(({ startMs, endMs }) => endMs - startMs);
      const dToP = results.flatMap(({ transfer }) => transfer.dToP ?? []);
      const pToD = results.flatMap(({ transfer }) => transfer.pToD ?? []);
      expect(dToP.length).toBe(2);
      expect(pulls.map(({ args }) => args.bytes)).toEqual(dToP.map(({ bytes }) => bytes));
      expect(handOvers.map(({ args }) => args.bytes)).toEqual(pToD.map(({ bytes }) => bytes));
      expect(times(pulls)).toEqual(dToP.map(({ ms }) => ms));
      expect(times(handOvers)).toEqual(pToD.map(({ ms }) => ms));
      const first = spans.filter(({ name }) => name === 'ttft');
      expect(times(first)).toEqual(results.map(({ ttftMs }) => ttftMs));

      const parts: string[] = [];
      const writer = new TraceWriter({ write: (text) => parts.push(text), originMs: 0, about: {} });
      for (const span of spans) writer.add(span);
      writer.end();
      const { traceEvents } = JSON.parse(parts.join('')) as { traceEvents: Record<string, unknown>[] };
      const drawn = traceEvents.filter(({ name }) => name === 'transfer');
      const moves = [...dToP, ...pToD];
      const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
      expect(sum(drawn.map(({ args }) => (args as { bytes: number }).bytes))).toBe(
        sum(moves.map(({ bytes }) => bytes)),
      );
      const drawnMicros = sum(drawn.map(({ dur }) => dur as number));
      const movedMicros = 1000 * sum(moves.map(({ ms }) => ms));
      // A double holds milliseconds since 1970 to a quarter of a microsecond.
      expect(Math.abs(drawnMicros - movedMicros)).toBeLessThanOrEqual(0.25 * moves.length);
    });
  });
});
