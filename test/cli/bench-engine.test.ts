import { expect, it } from 'vitest';
import { decode } from '../../src/cli/bench/engine/alone.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { ModelExecutor, SampledRow, ScheduledBatch } from '../../src/engine/types.ts';
import { TestClock } from '../clock.ts';
import { engineConfig } from '../engine/fakes.ts';

/** Always samples the same token, and records how many rows each request of each step had. */
class Rows implements ModelExecutor {
  readonly steps: number[][] = [];

  async execute({ requests }: ScheduledBatch): Promise<SampledRow[]> {
    this.steps.push(requests.map(({ tokenIds }) => tokenIds.length));
    return requests.flatMap(({ requestId, sample }) =>
      sample ? [{ requestId, tokenId: 7, logitsDigest: '0', logits: null }] : [],
    );
  }
}

it('a decode step of four sequences counts only if all four decode in it and none is prefilled', async () => {
  const executor = new Rows();
  // Prompts are prefilled over three steps.
  const config = engineConfig({ maxNumBatchedTokens: 64, prefixCaching: false });
  const core = new EngineCore({ config, executor, connector: null, clock: new TestClock() });
  const engine = { core, busy: () => 0, vocabSize: 97 };
  const times = await decode(engine, { context: 40, sequences: 4 }, 'case');
  const decoding = executor.steps.filter((rows) => rows.length === 4 && rows.every((n) => n === 1));
  expect(decoding.length).toBeLessThan(executor.steps.length - 3);
  // The first such step is not counted either.
  expect(times).toHaveLength(decoding.length - 1);
});
