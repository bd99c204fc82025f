/** A small trace on real engines: shared prefixes are found, and every mode computes the same logits. */
import { expect, it } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import { planReplay, type ReplayedTrace, replayTrace, traceTotals } from '../../src/lab/replay/replay.ts';
import { BadLines } from '../../src/workload/traces/bad-lines.ts';
import { traceTurns } from '../../src/workload/traces/turns.ts';
import type { TraceRequest } from '../../src/workload/traces/types.ts';
import { request } from '../workload/traces/sample-trace.ts';
import { testOptions, withCluster } from './cluster-fixture.ts';

/** A prompt of 3 blocks and a bit, then turns that add the answer and new text; a second conversation shares block 0. */
const requests: readonly TraceRequest[] = [
  request(0, { arrivalMs: 0, inputTokens: 3 * 512 + 100, outputTokens: 1024, hashIds: [0, 1, 2, 3] }),
  request(1, { arrivalMs: 0, inputTokens: 700, outputTokens: 320, hashIds: [0, 4] }),
  request(2, { arrivalMs: 50, inputTokens: 6 * 512, outputTokens: 320, hashIds: [0, 1, 2, 5, 6, 7] }),
  request(3, { arrivalMs: 60, inputTokens: 8 * 512, outputTokens: 64, hashIds: [0, 1, 2, 5, 6, 7, 8, 9] }),
];

const scale = { traceBlockSize: 512, lengthDivisor: 32, speedUp: 1 };
const trace: ReplayedTrace = {
  source: 'made',
  scale,
  drawn: null,
  async open() {
    async function* stream() {
      yield* requests;
    }
    return traceTurns(stream(), { scale, maxModelLen: 1024, bad: new BadLines('made', false) });
  },
};

it('a replayed trace pulls back answers that D was forced to generate, with the same tokens in every mode', async () => {
  const config = parseRunConfig({
    model: 'nano',
    mode: 'monolithic,unidirectional,bidirectional',
    threshold: 1,
  });
  await withCluster({}, async (cluster) => {
    const totals = await traceTotals(trace);
    expect(totals).toMatchObject({ requests: 4, conversations: 2, longest: 8 * 16 + 2 });
    const plan = planReplay(config, { ...testOptions, fleet: cluster.settings.fleet! }, totals);
    const report = await replayTrace(
      cluster,
      { config, trace, totals, plan, begunMs: performance.now(), signal: new AbortController().signal },
      {
        version: 'test',
        today: () => '2026-01-01T00:00:00.000Z',
        machine: () => ({ cpu: 'a', cores: 1, memory_bytes: 1, os: 'b', node: 'c' }),
        now: () => performance.now(),
        sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      },
      { planned() {}, armBegins() {}, requestDone() {}, armEnds() {} },
    );
    expect(report.comparison).toMatchObject({ tokens_identical: true, first_difference: null });
    expect(report.integrity).toMatchObject({ ok: true, leftover_blocks: 0 });
    const { bidirectional, unidirectional } = report.modes;
    expect(unidirectional).toMatchObject({ requests: 4, failed_requests: 0, pulled_tokens: 0 });
    // P caches nothing: the previous turn's prompt and answer come from D, except the last token, which has no KV yet.
    const [first, second] = [52 + 32 - 1, 6 * 16 + 10 - 1];
    expect(bidirectional!.pulled_tokens).toBe(first + second);
    expect(bidirectional!.computed_tokens).toBe(totals.promptTokens - first - second);
  });
});
