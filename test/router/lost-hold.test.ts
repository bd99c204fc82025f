/** Turns whose offered hold P cannot read. If it is gone, P computes. Engines without a GPU. */
import { expect, test } from 'vitest';
import type { Handover } from '../../src/config/cluster-schema.ts';
import { REFUSED } from '../../src/connector/nixl/hold-ends.ts';
import { PolicyCluster } from '../connector/policy-cluster.ts';
import { alone, tokens } from '../engine/fakes.ts';
import { routerOver } from './policy-router.ts';

const sampling = { maxTokens: 4, ignoreEos: true, seed: 1 };

function served(handover: Handover) {
  const sizes = { blockSize: 4, numBlocks: 40, maxNumSeqs: 2, maxNumBatchedTokens: 4, prefixCaching: false };
  const strict = { loadFailurePolicy: 'fail', bidirectional: true, recomputeThreshold: 0 } as const;
  const cluster = new PolicyCluster(sizes, { ...sizes, maxNumBatchedTokens: 64 }, strict);
  let leaving = false;
  const { conversations, ask } = routerOver(cluster, {
    handover,
    engines: () => (leaving ? [] : [cluster.p, cluster.d]),
  });
  const leave = (leaves: boolean) => {
    leaving = leaves;
  };
  const nothingHeld = async () => {
    conversations.forget('a');
    await cluster.release();
    for (const { core } of [cluster.p, cluster.d])
      expect(core.inspect.stats()).toMatchObject({ usedBlocks: 0, heldRequests: 0 });
  };
  const askFor = (promptTokenIds: readonly number[]) => ask({ promptTokenIds, sampling });
  return { cluster, ask: askFor, leave, nothingHeld };
}

test.each([
  { when: 'before it read', handover: 'pull', pulls: true, leaves: false },
  { when: 'after it read', handover: 'pull', pulls: false, leaves: false },
  { when: 'after it read', handover: 'streamed', pulls: false, leaves: false },
  { when: 'after it read', handover: 'pull', pulls: false, leaves: true },
] as const)(
  'with handover $handover a turn whose P ended $when is served when it is sent again (its engines leave: $leaves)',
  async (ended) => {
    const { cluster, ask, leave, nothingHeld } = served(ended.handover);
    const first = await cluster.finish(ask(tokens(12, 1)));
    const prompt = [...first.promptTokenIds, ...first.outputTokenIds, ...tokens(24, 2)];
    const failed = ask(prompt).catch((error: Error) => error);
    const { d, p } = cluster;
    if (ended.pulls) await expect.poll(() => p.load.inFlight).toBe(1);
    else await cluster.runUntil(() => d.holds.list().every(({ requestId }) => !requestId.startsWith('a#1')));
    p.end();
    cluster.replace('prefill');
    expect(await cluster.finish(failed)).toMatchObject({ message: `${p.engineId} ended` });
    const retry = ask(prompt);
    await expect.poll(() => cluster.p.load.inFlight).toBe(1);
    leave(ended.leaves);
    const again = await cluster.finish(retry);
    expect(again.outputTokenIds).toEqual(await alone(prompt, sampling));
    expect(again.prompt.pulledTokens > 0).toBe(ended.pulls);
    await nothingHeld();
  },
);

test('a turn whose hold expires while it waits in P’s queue is computed, also if a failed load fails its request', async () => {
  const { cluster, ask, nothingHeld } = served('pull');
  const first = await cluster.finish(ask(tokens(12, 1)));
  const prompt = [...first.promptTokenIds, ...first.outputTokenIds, ...tokens(24, 2)];
  const waiting = ask(prompt);
  await expect.poll(() => cluster.p.load.inFlight).toBe(1);
  cluster.clock.advance(476_000);
  const second = await cluster.finish(waiting);
  expect(second.prompt).toMatchObject({ pulledTokens: 0, computedTokens: prompt.length });
  expect(second.outputTokenIds).toEqual(await alone(prompt, sampling));
  await nothingHeld();
});

test('a turn whose hold is there and refused to P fails, if a failed load fails its request', async () => {
  const { cluster, ask, nothingHeld } = served('pull');
  const first = await cluster.finish(ask(tokens(12, 1)));
  const prompt = [...first.promptTokenIds, ...first.outputTokenIds, ...tokens(24, 2)];
  cluster.net.node(cluster.d.address)!.setHandlers({ gate: () => REFUSED });
  const failed = ask(prompt).catch((error: Error) => error);
  expect(await cluster.finish(failed)).toMatchObject({
    message: `${cluster.p.engineId}: ${REFUSED.message}`,
  });
  await nothingHeld();
});
