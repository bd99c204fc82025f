/** Engines join and leave while turns are served: tokens and logits of one engine, no turn lost, no block left held. */
import { describe, expect, it } from 'vitest';
import { DRAINS } from '../../src/config/autoscale.ts';
import { RequestError } from '../../src/errors.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ScaleReport } from '../../src/fleet/scale-report.ts';
import { finalIntegrity } from '../../src/lab/integrity.ts';
import type { DrainRule } from '../../src/router/scaling/drain.ts';
import { type Answer, converse, fingerprint, generate, withCluster } from './cluster-fixture.ts';

const seeds = [1, 2, 3, 4];
const TURNS = 8;
const talk = async (cluster: EngineCluster, onTurn: () => void = () => {}): Promise<Answer[]> => {
  const stop = cluster.onNotice(({ kind }) => kind === 'turn' && onTurn());
  const answers = await Promise.all(seeds.map((seed) => converse(cluster, `c${seed}`, TURNS, { seed })));
  stop();
  return answers.flat();
};

/** The target sizes, and the turn (of seeds.length * TURNS) at which each is set. */
const PLAN = [
  { turn: 6, target: { prefill: 2, decode: 2 } },
  { turn: 18, target: { prefill: 1, decode: 1 } },
];

async function talkWhileScaling(cluster: EngineCluster, rule: DrainRule) {
  let turn = 0;
  let last: Promise<ScaleReport> = Promise.resolve({ joined: [], left: [] });
  const reports: Promise<ScaleReport>[] = [];
  const answers = await talk(cluster, () => {
    turn++;
    for (const step of PLAN) {
      if (step.turn !== turn) continue;
      // One after another: a caller waits for each change.
      last = last.then(() => cluster.scale(step.target, rule));
      reports.push(last);
    }
  });
  return { answers, reports: await Promise.all(reports) };
}

describe('scaling from 1P1D to 2P2D and back under load', () => {
  it.each(DRAINS)(
    'with drain %s gives the tokens and logits of one engine, loses no turn and leaves nothing held',
    async (drain) => {
      const alone = fingerprint(await withCluster({ mode: 'monolithic' }, (cluster) => talk(cluster)));
      await withCluster({}, async (cluster) => {
        const served = new Set<string>();
        cluster.onNotice((notice) => notice.kind === 'request' && served.add(notice.engineId));
        const { answers, reports } = await talkWhileScaling(cluster, { drain, holdsMs: 500 });
        expect(fingerprint(answers)).toEqual(alone);
        const [up, down] = reports as [ScaleReport, ScaleReport];
        expect(up.joined.map(({ name }) => name)).toEqual(['prefill-1', 'decode-1']);
        for (const { startMs, compileMs } of up.joined) expect(startMs).toBeGreaterThanOrEqual(compileMs);
        expect(down.left.map(({ role }) => role).sort()).toEqual(['decode', 'prefill']);
        const roles = cluster.info.engines.map(({ role }) => role);
        expect(roles).toEqual(['prefill', 'decode']);
        expect(cluster.engines.map(({ ended }) => ended)).toEqual([null, null]);
        const lost = down.left.reduce((sum, { lost }) => sum + lost.tokens, 0);
        const migrated = down.left.reduce((sum, { migrated }) => sum + migrated.tokens, 0);
        if (drain === 'migrate') expect(lost).toBe(0);
        else expect(migrated).toBe(0);
        // Engines that join get turns.
        await cluster.scale({ prefill: 2, decode: 2 });
        served.clear();
        await talk(cluster);
        expect(served.size).toBe(4);
        expect([...served].every((id) => cluster.engines.some(({ engineId }) => engineId === id))).toBe(true);
        await cluster.scale({ prefill: 1, decode: 1 }, { drain: 'drop', holdsMs: 0 });
        expect(await finalIntegrity(cluster)).toEqual({ ok: true, leftover_blocks: 0, problem: null });
      });
    },
  );

  it('with drain migrate lets the next turns pull everything the leaving D held from the new holder', async () => {
    const ids = ['a', 'b'];
    const next = async (cluster: EngineCluster, first: Answer[]): Promise<Answer[]> => {
      const turns = ids.map((conversationId, i) => {
        const { promptTokenIds: prompt, outputTokenIds } = first[i]!.result;
        const promptTokenIds = [...prompt, ...outputTokenIds, 50, 60];
        return generate(cluster, {
          conversationId,
          promptTokenIds,
          sampling: { maxTokens: 8, ignoreEos: true },
        });
      });
      return Promise.all(turns);
    };
    const begin = async (cluster: EngineCluster) =>
      (await Promise.all(ids.map((id, seed) => converse(cluster, id, 1, { seed: seed + 1 })))).flat();
    const alone = await withCluster({ mode: 'monolithic' }, async (cluster) =>
      next(cluster, await begin(cluster)),
    );
    await withCluster(
      { decode: { count: 2, numBlocks: 96, enablePrefixCaching: false } },
      async (cluster) => {
        const first = await begin(cluster);
        const held = first.map(
          ({ result }) => result.promptTokenIds.length + result.outputTokenIds.length - 1,
        );
        // Each D holds one conversation, so either has a hold to migrate.
        const { left } = await cluster.scale({ decode: 1 }, { drain: 'migrate', holdsMs: 10_000 });
        expect(left).toMatchObject([
          { migrated: { holds: 1, tokens: held[0] }, lost: { holds: 0, tokens: 0 } },
        ]);
        const answers = await next(cluster, first);
        expect(answers.map(({ result }) => result.prompt.pulledTokens)).toEqual(held);
        expect(fingerprint(answers)).toEqual(fingerprint(alone));
        expect(await finalIntegrity(cluster)).toEqual({ ok: true, leftover_blocks: 0, problem: null });
      },
    );
  });
});

describe('an invalid or concurrent scale request', () => {
  it('is refused with a reason, and running turns continue', async () => {
    await withCluster({}, async (cluster) => {
      const answers = converse(cluster, 'c', 3);
      await expect(cluster.scale({ prefill: 0 })).rejects.toThrow(
        'cannot scale prefill to 0: without a P nothing is served',
      );
      const [first, second] = await Promise.allSettled([
        cluster.scale({ decode: 2 }),
        cluster.scale({ decode: 3 }),
      ]);
      expect(first.status).toBe('fulfilled');
      expect((second as PromiseRejectedResult).reason).toBeInstanceOf(RequestError);
      expect((second as PromiseRejectedResult).reason.message).toMatch(/the fleet is being scaled: wait/);
      expect(await answers).toHaveLength(3);
      expect(cluster.info.engines).toHaveLength(3);
    });
  });
});
