/** Negative controls: each check after a run can fail. */
import { describe, expect, it } from 'vitest';
import { checkRun, checkSame } from '../../src/simulate/results/check-run.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { outcomeOf } from '../../src/simulate/results/outcome.ts';
import { greedy, simulated, turn } from './simulated.ts';

const request = { conversationId: 'a', promptTokenIds: [8, 9, 10], sampling: greedy(3) };

async function served() {
  const cluster = simulated({}, { stepMs: () => 5 });
  const collector = new Collector();
  await cluster.run(
    (async () => {
      collector.arrives('a', 0);
      collector.ends(0, await turn(cluster, request));
    })(),
  );
  return { cluster, collector };
}

describe('the checks after a run', () => {
  it('pass for a correct run', async () => {
    const { cluster, collector } = await served();
    await expect(checkRun(cluster, collector)).resolves.toBeUndefined();
  });

  it('fail if a request never ended', async () => {
    const { cluster, collector } = await served();
    collector.arrives('b', 0);
    await expect(checkRun(cluster, collector)).rejects.toThrow(
      '2 requests arrived, 1 succeeded, 0 failed: 1 are missing',
    );
  });

  it('fail if the last token of a request came before its first', async () => {
    const { cluster, collector } = await served();
    const result = await cluster.run(turn(cluster, { ...request, conversationId: 'b' }));
    collector.arrives('b', 0);
    collector.ends(0, { ...result, latencyMs: result.ttftMs / 2 });
    await expect(checkRun(cluster, collector)).rejects.toThrow('had its first token after');
  });

  it('fail if a READ never ended', async () => {
    const { cluster, collector } = await served();
    cluster.net.counts.started++;
    await expect(checkRun(cluster, collector)).rejects.toThrow('READs began');
  });

  it('fail if a conversation has two turns at once', () => {
    const collector = new Collector();
    collector.arrives('a', 0);
    expect(() => collector.arrives('a', 0)).toThrow('two turns of a are under way');
  });

  it('fail if the same seed gave different results', async () => {
    const [one, other] = await Promise.all(
      [served(), served()].map(async (run) =>
        outcomeOf({ ...(await run), happened: null, stopped: null, lastComesMs: null }),
      ),
    );
    expect(() => checkSame(one!, other!, 7)).not.toThrow();
    const ttftMs = one!.columns.ttftMs.map((ms) => ms + 1);
    const changed = { ...other!, columns: { ...other!.columns, ttftMs } };
    expect(() => checkSame(one!, changed, 7)).toThrow('seed 7 gave different columns');
  });
});
