import { expect, it } from 'vitest';
import type { PullPolicyName } from '../../src/config/kv-transfer.ts';
import { RequestError } from '../../src/errors.ts';
import { type Answer, converse, fingerprint, generate, withCluster } from './cluster-fixture.ts';

const ids = (count: number, seed: number) =>
  Array.from({ length: count }, (_, i) => 10 + ((seed * 7919 + i * 31) % 400));

const account = ({ result }: Answer) => ({
  ...result.prompt,
  pToD: result.transfer.pToD?.blocks ?? 0,
  dToP: result.transfer.dToP?.blocks ?? 0,
});

it('rewind restores the state before a turn, so it can be served repeatedly, pulled or computed', async () => {
  await withCluster({}, async (cluster) => {
    await cluster.configure({ recomputeThreshold: 64 });
    const [first] = await converse(cluster, 'c', 1, { newTokens: 53, outputTokens: 9 });
    const promptTokenIds = [...first!.result.promptTokenIds, ...first!.result.outputTokenIds, ...ids(20, 3)];
    const sampling = { maxTokens: 6, temperature: 1, seed: 5, ignoreEos: true };
    const serve = (pull: PullPolicyName) =>
      generate(cluster, { conversationId: 'c', promptTokenIds, sampling, pull });
    const served: unknown[] = [];
    const stop = cluster.onSpan(({ name, args }) => name === 'turn' && served.push(args.served));
    const answers: Answer[] = [];
    for (const pull of ['always', 'never', 'always', 'never', 'threshold'] as const) {
      if (answers.length > 0) await cluster.rewind('c');
      answers.push(await serve(pull));
    }
    const [pulled, computed, pulledAgain, computedAgain, byThreshold] = answers.map(account);
    // D held 53 + 9 - 1 tokens, 48 of them in full blocks; P caches nothing.
    expect(pulled).toMatchObject({ pulledTokens: 61, computedTokens: 21, dToP: 4, pToD: 3 });
    expect(computed).toMatchObject({ pulledTokens: 0, computedTokens: 82, dToP: 0, pToD: 3 });
    expect(computed!.noPull).toEqual({ by: 'request', reason: 'the request asks for recomputation' });
    expect(byThreshold!.noPull).toEqual({ by: 'policy', reason: '61 < threshold 64' });
    expect(pulledAgain).toEqual(pulled);
    expect(computedAgain).toEqual(computed);
    for (const answer of answers) {
      expect(fingerprint([answer])).toEqual(fingerprint([answers[0]!]));
      expect(answer.result.turn).toBe(2);
    }
    // The conversation continues from the last turn served.
    const next = [...promptTokenIds, ...answers[0]!.result.outputTokenIds, ...ids(5, 9)];
    const third = await generate(cluster, {
      conversationId: 'c',
      promptTokenIds: next,
      sampling,
      pull: 'always',
    });
    expect(third.result).toMatchObject({ turn: 3, prompt: { pulledTokens: 87 } });
    stop();
    expect(served, 'said by the spans of the turn').toEqual([
      undefined,
      'again',
      'again',
      'again',
      'again',
      undefined,
    ]);
    await cluster.endConversation('c');
  });
});

it("rewind keeps exactly the requested number of tokens of the turn in P's cache", async () => {
  const prefill = { numBlocks: 128, enablePrefixCaching: true };
  await withCluster({ prefill }, async (cluster) => {
    const [first] = await converse(cluster, 'c', 1, { newTokens: 53, outputTokens: 9 });
    const promptTokenIds = [...first!.result.promptTokenIds, ...first!.result.outputTokenIds, ...ids(20, 3)];
    const sampling = { maxTokens: 1, ignoreEos: true };
    const serve = (pull: PullPolicyName) =>
      generate(cluster, { conversationId: 'c', promptTokenIds, sampling, pull });
    expect((await serve('always')).result.prompt.localHitTokens).toBe(48);
    await cluster.rewind('c', 32);
    expect((await serve('always')).result.prompt).toMatchObject({ localHitTokens: 32, pulledTokens: 29 });
    await cluster.rewind('c');
    expect((await serve('never')).result.prompt).toMatchObject({ localHitTokens: 32, computedTokens: 50 });
    await cluster.rewind('c', 0);
    expect((await serve('never')).result.prompt).toMatchObject({ localHitTokens: 0, computedTokens: 82 });
  });
});

it('rewind takes back one turn only, in every mode, including the first turn', async () => {
  await withCluster({}, async (cluster) => {
    await expect(cluster.rewind('c')).rejects.toThrow(RequestError);
    const sampling = { maxTokens: 2, ignoreEos: true };
    for (const mode of ['bidirectional', 'unidirectional', 'monolithic'] as const) {
      await cluster.setMode(mode);
      const serve = () => generate(cluster, { conversationId: 'c', promptTokenIds: ids(40, 1), sampling });
      const once = await serve();
      await cluster.rewind('c');
      await expect(cluster.rewind('c')).rejects.toThrow('no turn to take back');
      expect(account(await serve())).toEqual(account(once));
    }
  });
});

it('rewind of a salted conversation removes only the blocks under that salt', async () => {
  const prefill = { numBlocks: 128, enablePrefixCaching: true };
  await withCluster({ prefill }, async (cluster) => {
    const sampling = { maxTokens: 2, ignoreEos: true };
    const serve = (conversationId: string, cacheSalt: string | null) =>
      generate(cluster, { conversationId, promptTokenIds: ids(40, 1), sampling, cacheSalt });
    const once = await serve('salted', 'a');
    await serve('plain', null);
    await cluster.rewind('salted');
    const again = await serve('salted', 'a');
    expect(again.result.turn).toBe(1);
    expect(account(again)).toEqual(account(once));
    expect(again.result.prompt.localHitTokens).toBe(0);
    expect((await serve('another', null)).result.prompt.localHitTokens).toBe(32);
  });
});

it('rewind takes back a turn whose prompt was text', async () => {
  await withCluster({}, async (cluster) => {
    const sampling = { maxTokens: 3, ignoreEos: true };
    const serve = (promptText: string) => generate(cluster, { conversationId: 't', promptText, sampling });
    const first = await serve('once upon a time');
    const text = `once upon a time${first.result.text}, and then`;
    const second = await serve(text);
    await cluster.rewind('t');
    // The rewound answer is no longer history: everything after the first turn is new.
    const third = await serve(`${text}${second.result.text}, at last`);
    expect(third.result.turn).toBe(2);
    expect(cluster.decode([...third.result.promptTokenIds])).toContain(', and then');
  });
});
