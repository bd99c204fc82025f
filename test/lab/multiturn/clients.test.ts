import { describe, expect, test } from 'vitest';
import { InternalError, RequestError } from '../../../src/errors.ts';
import { requestsOf, serveConversations } from '../../../src/lab/multiturn/clients.ts';
import type { MeasuredRequest } from '../../../src/measure/summaries/bench-summary.ts';
import { clientOptions } from './client-options.ts';
import { conversation, FakeTarget } from './fake-target.ts';

const order = (target: FakeTarget) =>
  target.sent.map(({ conversationId, turn }) => `${conversationId}${turn}`).join(' ');

describe('clients', () => {
  test('serve conversations in order, with real answers as history, if one is active at a time', async () => {
    const target = new FakeTarget();
    const served = await serveConversations(
      target,
      [conversation('a', 2), conversation('b', 1)],
      clientOptions(),
    );
    expect(order(target)).toBe('a1 a2 b1');
    expect(target.sent[1]!.prompt).toEqual({ kind: 'tokens', tokenIds: [100, 10, 11, 101] });
    expect(target.sent[0]).toMatchObject({ minTokens: 2, maxTokens: 2 });
    expect(served.requests[1]!.sample).toMatchObject({
      input_num_turns: 3,
      input_num_tokens: 4,
      output_num_chunks: 1,
      tpot_ms: 3,
    });
    expect([...new Set(target.ended)]).toEqual(['a', 'b']);
  });

  test('rotate through the active conversations, newest first, as in vLLM', async () => {
    const target = new FakeTarget();
    const three = ['a', 'b', 'c'].map((id) => conversation(id, 2));
    await serveConversations(target, three, clientOptions({ maxActive: 3 }));
    expect(order(target)).toBe('c1 b1 a1 c2 b2 a2');
  });

  test('have one request in flight each, and each keeps its own conversations', async () => {
    const target = new FakeTarget();
    const list = ['a', 'b', 'c', 'd', 'e'].map((id) => conversation(id, 3));
    const served = await serveConversations(target, list, clientOptions({ numClients: 2, maxActive: 4 }));
    expect(target.most).toBe(2);
    expect(served.requests).toHaveLength(15);
    for (const id of 'abcde') {
      const clients = served.requests
        .filter(({ sample }) => sample.conversation_id === id)
        .map(({ sample }) => sample.client);
      expect(new Set(clients).size).toBe(1);
    }
  });

  test('have a signal each, as Node warns of a leak if one has many listeners', async () => {
    const target = new FakeTarget();
    const list = ['a', 'b', 'c'].map((id) => conversation(id, 2));
    await serveConversations(target, list, clientOptions({ numClients: 3, maxActive: 3 }));
    expect(new Set(target.sent.map(({ signal }) => signal)).size).toBe(3);
  });

  test('pick conversations at random by the seed', async () => {
    const run = async (seed: number) => {
      const target = new FakeTarget();
      const list = ['a', 'b', 'c', 'd'].map((id) => conversation(id, 4));
      await serveConversations(target, list, clientOptions({ maxActive: 4, pick: 'random', seed }));
      return order(target);
    };
    expect(await run(1)).toBe(await run(1));
    expect(await run(1)).not.toBe(await run(2));
  });

  test('leave gaps between requests that average to the request rate', async () => {
    const gaps: number[] = [];
    const sleep = async (ms: number) => void gaps.push(ms);
    await serveConversations(
      new FakeTarget(),
      [conversation('a', 3000)],
      clientOptions({ requestRate: 4, sleep }),
    );
    expect(gaps).toHaveLength(3000);
    expect(gaps.reduce((a, b) => a + b) / 3000 / 250).toBeCloseTo(1, 1);
  });

  test('serve first turns in the warm-up step without counting them', async () => {
    const target = new FakeTarget();
    const list = [conversation('a', 2), conversation('b', 1)];
    // A round that is cut short knows its requests from onRequest.
    const told: number[] = [];
    const onRequest = ({ sample }: MeasuredRequest) => void told.push(sample.turn);
    const options = clientOptions({ warmupStep: true, onRequest });
    const served = await serveConversations(target, list, options);
    expect(told).toEqual([2]);
    expect(requestsOf(list, options)).toBe(1);
    expect(order(target)).toBe('a1 b1 a2');
    expect(served.requests.map(({ sample }) => sample.turn)).toEqual([2]);
    expect(target.sent[2]!.prompt).toEqual({ kind: 'tokens', tokenIds: [100, 10, 11, 101] });
  });

  test('drop a conversation whose first turn fails in the warm-up step, and count the error', async () => {
    const target = new FakeTarget(({ conversationId }) =>
      conversationId === 'a' ? new RequestError('full') : null,
    );
    const told: string[] = [];
    const served = await serveConversations(
      target,
      [conversation('a', 3), conversation('b', 2)],
      clientOptions({ warmupStep: true, onRequest: ({ sample }) => told.push(`b${sample.turn}`) }),
    );
    expect(order(target)).toBe('a1 b1 b2');
    expect([...served.errors]).toEqual([['full', 1]]);
    expect(told).toEqual(['b2']);
  });

  test('count earlier answers as prompt tokens if an answer does not report its prompt length', async () => {
    const served = await serveConversations(new FakeTarget(), [conversation('a', 3)], clientOptions());
    expect(served.requests.map(({ sample }) => sample.input_num_tokens)).toEqual([1, 4, 7]);
  });

  test('limit output tokens as given, by the workload (0), or not at all (-1)', async () => {
    const limits = async (min: number, max: number) => {
      const target = new FakeTarget();
      await serveConversations(target, [conversation('a', 1)], clientOptions({ limitTokens: { min, max } }));
      return [target.sent[0]!.minTokens, target.sent[0]!.maxTokens];
    };
    expect(await limits(3, 7)).toEqual([3, 7]);
    expect(await limits(0, 0)).toEqual([2, 2]);
    expect(await limits(-1, -1)).toEqual([null, null]);
  });

  test('drop a conversation after a failed request, and count the error', async () => {
    const target = new FakeTarget(({ conversationId }) =>
      conversationId === 'a' ? new RequestError('full') : null,
    );
    const served = await serveConversations(
      target,
      [conversation('a', 3), conversation('b', 2)],
      clientOptions(),
    );
    expect(order(target)).toBe('a1 b1 b2');
    expect([...served.errors]).toEqual([['full', 1]]);
    expect(served.requests).toHaveLength(2);
  });

  test('stop entirely at an internal error, or when aborted', async () => {
    const target = new FakeTarget(() => new InternalError('broken'));
    const list = [conversation('a', 3), conversation('b', 3)];
    await expect(
      serveConversations(target, list, clientOptions({ numClients: 2, maxActive: 2 })),
    ).rejects.toThrow('broken');
    const stop = new AbortController();
    stop.abort(new Error('enough'));
    await expect(serveConversations(target, list, clientOptions({ signal: stop.signal }))).rejects.toThrow(
      'enough',
    );
  });
});
