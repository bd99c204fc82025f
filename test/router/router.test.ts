/** Whole conversations through the router, on engines that compute their tokens by arithmetic. */
import { describe, expect, test } from 'vitest';
import type { Handover } from '../../src/config/cluster-schema.ts';
import type { Mode } from '../../src/config/modes.ts';
import { RequestError } from '../../src/errors.ts';
import { routingSchema } from '../../src/measure/schemas/report.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import type { Placement } from '../../src/router/placement.ts';
import type { RoutingEvent, RoutingPolicy } from '../../src/router/plan.ts';
import { PromptBuilder, type TurnText } from '../../src/router/prompts.ts';
import { Router } from '../../src/router/router.ts';
import type { RequestNotice } from '../../src/router/turn-attempts.ts';
import { turnReport } from '../../src/router/turn-report.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';
import type { FailedTurn, GenerateRequest, TurnResult } from '../../src/router/turn-types.ts';
import { settled } from '../clock.ts';
import { answerOf, FakeEngine } from './fake-engine.ts';
import { policyOf, ROUND_ROBIN, routingOf } from './policies.ts';

const MAX_MODEL_LEN = 1000;

/** The prompts whose answers were decoded. */
const decodedAfter: number[][] = [];

/** Token ids are character codes. */
const text: TurnText = {
  architecture: { eosTokenIds: [] },
  tokenizer: {
    encode: (written) => [...written].map((c) => c.charCodeAt(0)),
    streamDecoder: ({ after }) => {
      decodedAfter.push([...after]);
      return { push: (id) => String.fromCharCode(id + 33), end: () => '' };
    },
  },
  chat: {
    encodePrompt: () => {
      throw new Error('prompts are ids here');
    },
    nextTurnPrompt: () => {
      throw new Error('prompts are ids here');
    },
  },
};

function world(
  mode: Mode,
  handover: Handover = 'pull',
  names = ['p0', 'd0'],
  policy = ROUND_ROBIN,
  { eosTokenIds = [], placement }: { eosTokenIds?: number[]; placement?: Placement } = {},
) {
  const engines = names.map((id) => new FakeEngine(id, id.startsWith('p') ? 'prefill' : 'decode'));
  let now = 0;
  const clock = { now: () => now++, sleep: async () => {} };
  const conversations = new ConversationCache(clock);
  const routing = routingOf(policy);
  const turns: string[] = [];
  const told: RequestNotice[] = [];
  const failed: FailedTurn[] = [];
  let ids = 0;
  const router = new Router({
    text: { ...text, architecture: { eosTokenIds } },
    prompts: new PromptBuilder(text),
    conversations,
    clock,
    routing: () => routing,
    settings: () => ({ mode, handover, throttled: false }),
    engines: () => engines,
    newId: () => `id-${++ids}`,
    onTurn: ({ turnId }) => turns.push(turnId),
    onRequest: (notice) => told.push(notice),
    onTurnFail: (turn) => failed.push(turn),
    maxModelLen: MAX_MODEL_LEN,
    spans: new TurnSpans(),
    ...(placement && { placement }),
  });
  const ask = async (request: Partial<GenerateRequest>) => {
    let final: TurnResult | null = null;
    const sampling = { maxTokens: 4, ...request.sampling };
    for await (const token of router.serve({ conversationId: 'a', ...request, sampling }))
      final = token.final;
    return final!;
  };
  /** Runs `count` turns; each next prompt is the prompt, its answer and one more token. */
  const converse = async (count: number, more: Partial<GenerateRequest> = {}) => {
    const results: TurnResult[] = [];
    let promptTokenIds: readonly number[] = [1, 2, 3, 4];
    for (let turn = 0; turn < count; turn++) {
      const result = await ask({ ...more, promptTokenIds });
      results.push(result);
      promptTokenIds = [...promptTokenIds, ...result.outputTokenIds, 5];
    }
    return results;
  };
  const at = (id: string) => engines.find(({ engineId }) => engineId === id)!;
  return { engines, at, router, conversations, turns, told, failed, ask, converse };
}

const expected = ({ promptTokenIds }: TurnResult) =>
  [0, 1, 2, 3].map((i) => answerOf([...promptTokenIds], i));

describe('a conversation of several turns', () => {
  test.each(['monolithic', 'unidirectional', 'bidirectional', 'decode-local'] as const)(
    'in mode %s prefills and pulls as the mode says, and gets the right tokens',
    async (mode) => {
      const { at, converse, turns } = world(mode);
      const results = await converse(3);
      for (const result of results) expect(result.outputTokenIds).toEqual(expected(result));
      expect(results.map(({ turn }) => turn)).toEqual([1, 2, 3]);
      expect(new Set(turns).size).toBe(3);
      const prefills = { monolithic: 0, unidirectional: 3, bidirectional: 3, 'decode-local': 1 };
      expect(at('p0').requests).toHaveLength(prefills[mode]);
      expect(at('d0').requests).toHaveLength(3);
      const pulled = results.map(({ prompt }) => prompt.pulledTokens);
      // D has the KV of all tokens but the last.
      expect(pulled).toEqual(mode === 'bidirectional' ? [0, 7, 12] : [0, 0, 0]);
      const ids = [...at('p0').requests, ...at('d0').requests].map(({ requestId }) => requestId);
      expect(new Set(ids).size).toBe(ids.length);
    },
  );

  test('sends P and D their parts with vLLM’s kv_transfer_params', async () => {
    const { at, converse } = world('bidirectional');
    await converse(2);
    const [first, second] = at('p0').requests;
    expect(first).toMatchObject({ sampling: { maxTokens: 1 }, kvTransferParams: { do_remote_decode: true } });
    expect(first!.kvTransferParams!.remote_request_id).toBeUndefined();
    const held = at('d0').requests[0]!.requestId;
    expect(second!.kvTransferParams).toMatchObject({ remote_engine_id: 'd0', remote_request_id: held });
    const handedOver = at('d0').requests[1]!.kvTransferParams;
    expect(handedOver).toMatchObject({ do_remote_prefill: true, remote_request_id: second!.requestId });
  });

  test('decodes each answer as the continuation of its prompt', async () => {
    const { converse } = world('bidirectional');
    decodedAfter.length = 0;
    const results = await converse(2);
    expect(decodedAfter).toEqual(results.map(({ promptTokenIds }) => promptTokenIds));
  });

  test('reports each request to an engine with its turn and side', async () => {
    const { at, converse, turns, told } = world('decode-local');
    await converse(2);
    const [atP] = at('p0').requests;
    const [atD, alone] = at('d0').requests;
    expect(told).toEqual([
      { requestId: atP!.requestId, turnId: turns[0], side: 'prefill', engineId: 'p0' },
      { requestId: atD!.requestId, turnId: turns[0], side: 'decode', engineId: 'd0' },
      { requestId: alone!.requestId, turnId: turns[1], side: 'prefill', engineId: 'd0' },
    ]);
  });

  test('with streamed handover tells D which request of P to read', async () => {
    const { at, converse } = world('bidirectional', 'streamed');
    const results = await converse(2);
    for (const result of results) expect(result.outputTokenIds).toEqual(expected(result));
    expect(at('d0').requests[0]!.kvTransferParams).toMatchObject({
      streamed: true,
      remote_engine_id: 'p0',
      remote_request_id: at('p0').requests[0]!.requestId,
    });
  });

  test('over several P and D offers what another D holds, and alternates between engines', async () => {
    const { at, converse } = world('bidirectional', 'pull', ['p0', 'p1', 'd0', 'd1']);
    await converse(2);
    expect(at('p1').requests[0]!.kvTransferParams).toMatchObject({ remote_engine_id: 'd0' });
    expect(at('d1').requests).toHaveLength(1);
  });
});

describe('the router', () => {
  test('releases a hold when the next turn cannot use it', async () => {
    const { at, ask, converse, conversations } = world('unidirectional');
    await converse(1);
    const held = at('d0').requests[0]!.requestId;
    await ask({ promptTokenIds: [1, 2] });
    expect(at('d0').released).toContain(held);
    conversations.forget('a');
    expect(at('d0').released).toContain(at('d0').requests[1]!.requestId);
  });

  test('releases an offered hold when the turn ends well too, as its pull may have failed unnoticed', async () => {
    const { at, converse } = world('bidirectional');
    await converse(2);
    const [first, second] = at('d0').requests;
    expect(at('d0').released).toEqual([first!.requestId]);
    expect([...at('d0').holds]).toEqual([second!.requestId]);
  });

  test('releases a hold when the turn that took it fails or is abandoned', async () => {
    for (const leave of [true, false]) {
      const { at, router, converse } = world('bidirectional');
      await converse(1);
      const held = at('d0').requests[0]!.requestId;
      if (!leave) at('d0').fails = () => 'its KV did not arrive';
      const turn = router.serve({
        conversationId: 'a',
        promptTokenIds: [1, 2, 3],
        sampling: { maxTokens: 4 },
      });
      if (leave) {
        await turn.next();
        await turn.return(undefined);
        expect(at('d0').aborted).toHaveLength(1);
      } else await expect(turn.next()).rejects.toThrow('d0: its KV did not arrive');
      expect(at('d0').released).toContain(held);
    }
  });

  test('keeps a hold if P ends before reading it, or if the prompt is too long for any engine', async () => {
    const { at, ask, converse, engines } = world('bidirectional');
    const [first] = await converse(1);
    const held = at('d0').requests[0]!.requestId;
    const more = [...first!.promptTokenIds, ...first!.outputTokenIds, 5] as number[];
    at('p0').fails = () => 'ends';
    await expect(ask({ promptTokenIds: more })).rejects.toThrow('p0 ended');
    expect(at('d0').released).toEqual([]);
    engines[0] = new FakeEngine('p0', 'prefill');
    const long = Array.from({ length: MAX_MODEL_LEN }, () => 1);
    await expect(ask({ promptTokenIds: long })).rejects.toThrow('shorten the prompt');
    expect(at('p0').requests).toEqual([]);
    expect((await ask({ promptTokenIds: more })).prompt.pulledTokens).toBe(7);
    expect(at('p0').requests[0]!.kvTransferParams).toMatchObject({ remote_request_id: held });
  });

  test('lets a client leave while an engine does not answer, and aborts what the engine accepts later', async () => {
    const { at, ask } = world('monolithic');
    const submit = at('d0').submit.bind(at('d0'));
    let goOn = () => {};
    at('d0').submit = async (request) => {
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      return submit(request);
    };
    const client = new AbortController();
    const turn = ask({ promptTokenIds: [1, 2, 3], signal: client.signal });
    await new Promise(setImmediate);
    client.abort(new Error('gone'));
    await expect(turn).rejects.toThrow('gone');
    goOn();
    await expect.poll(() => at('d0').aborted).toEqual(at('d0').requests.map(({ requestId }) => requestId));
    expect(at('d0').requests).toHaveLength(1);
  });

  test('releases P’s blocks when D never begins', async () => {
    const { at, ask } = world('bidirectional');
    at('d0').end();
    await expect(ask({ promptTokenIds: [1, 2, 3] })).rejects.toThrow('d0 ended');
    expect(at('p0').released).toEqual([at('p0').requests[0]!.requestId]);
  });
});

describe('with failover', () => {
  test('a turn continues with the same tokens when D ends halfway', async () => {
    const { at, converse, told } = world('bidirectional');
    const decodes = (id: string) => told.some(({ requestId, side }) => requestId === id && side === 'decode');
    at('d0').fails = (id, index) => (decodes(id) && index === 2 ? 'ends' : null);
    const [result] = await converse(1, { failover: true });
    expect(result!.outputTokenIds).toEqual(expected(result!));
    expect(at('p0').requests).toHaveLength(2);
    expect(at('p0').requests[1]!.requestId).not.toBe(at('p0').requests[0]!.requestId);
  });

  test('a turn runs on one engine at once if a whole role is gone', async () => {
    const { at, converse } = world('bidirectional');
    at('p0').end();
    const [result] = await converse(1, { failover: true });
    expect(result!.outputTokenIds).toEqual(expected(result!));
    expect(at('d0').requests[0]!.kvTransferParams).toBeNull();
  });

  test('D computes the turn alone if KV does not arrive, and the offered hold is released once', async () => {
    const { at, converse, ask } = world('bidirectional');
    await converse(1);
    const held = at('d0').requests[0]!.requestId;
    at('p0').fails = () => 'its KV did not arrive';
    const result = await ask({ promptTokenIds: [1, 2, 3, 4, 5], failover: true });
    expect(result.outputTokenIds).toEqual(expected(result));
    expect(at('d0').released.filter((id) => id === held)).toHaveLength(1);
  });

  test('a turn fails with the last failure once every engine was tried', async () => {
    const { at, ask } = world('bidirectional');
    at('p0').fails = () => 'broken';
    at('d0').fails = () => 'broken too';
    await expect(ask({ promptTokenIds: [1, 2], failover: true })).rejects.toThrow('p0: broken');
    expect(at('d0').requests).toHaveLength(1);
    expect(at('p0').requests).toHaveLength(2);
  });

  test('a turn stays within the rolesets that take its prompt', async () => {
    const rolesets = [
      { name: 'short', min: 0, max: 3 },
      { name: 'long', min: 4, max: null },
    ];
    const placement = { mode: 'replica', rolesets } as const;
    const names = ['p0', 'd0', 'p1', 'd1', 'd2'];
    const { engines, at, converse } = world('unidirectional', 'pull', names, ROUND_ROBIN, { placement });
    for (const [i, engine] of engines.entries()) Object.assign(engine, { roleset: i < 2 ? 'short' : 'long' });
    at('d1').fails = () => 'ends';
    const [result] = await converse(1, { failover: true });
    expect(result!.outputTokenIds).toEqual(expected(result!));
    expect([at('d0').requests, at('d2').requests].map(({ length }) => length)).toEqual([0, 1]);
  });

  test('an engine that is too small for a turn whose engine ended does not refuse the request', async () => {
    const { at, ask } = world('bidirectional', 'pull', ['p0', 'p1', 'd0']);
    const tooSmall = () => Promise.reject(new RequestError('needs more blocks than the pool has'));
    at('d0').end();
    at('p0').submit = tooSmall;
    const result = await ask({ promptTokenIds: [1, 2, 3], failover: true });
    expect(result.outputTokenIds).toEqual(expected(result));
    at('p1').submit = tooSmall;
    const again = ask({ promptTokenIds: [1, 2, 3], failover: true });
    await expect(again).rejects.toThrow('no live engine takes the turn');
  });

  test('the error says so if no engine is alive', async () => {
    const { engines, ask } = world('bidirectional');
    for (const engine of engines) engine.end();
    await expect(ask({ promptTokenIds: [1, 2], failover: true })).rejects.toThrow('no engine is alive');
  });
});

test.each([
  ['monolithic', 'pull', 'd0'],
  ['bidirectional', 'pull', 'p0'],
  ['bidirectional', 'pull', 'd0'],
  ['bidirectional', 'streamed', 'p0'],
  ['bidirectional', 'streamed', 'd0'],
] as const)(
  'in mode %s with handover %s, a client that leaves does not wait for a stuck %s',
  async (mode, handover, stuck) => {
    const { at, router } = world(mode, handover);
    const never = () => new Promise<never>(() => {});
    const told: string[] = [];
    Object.assign(at(stuck), {
      pace: never,
      abort: (requestId: string) => {
        told.push(requestId);
        return never();
      },
      release: never,
    });
    const client = new AbortController();
    const turn = router.serve({ conversationId: null, promptTokenIds: [1, 2], signal: client.signal });
    const first = turn.next();
    await expect.poll(() => at(stuck).requests.length).toBe(1);
    client.abort(new Error('gone'));
    await expect(first).rejects.toThrow('gone');
    expect(told).toEqual(at(stuck).requests.map(({ requestId }) => requestId));
  },
);

test('an invalid list of stop strings is refused before any engine gets a request', async () => {
  for (const stop of ['x', [''], [1]] as never[]) {
    const { ask, engines } = world('unidirectional');
    const asked = ask({ promptTokenIds: [1, 2], stop });
    await expect(asked).rejects.toThrow(RequestError);
    await expect(asked).rejects.toThrow(
      `stop is ${JSON.stringify(stop)}: wanted a list of non-empty strings`,
    );
    expect(engines.flatMap(({ requests }) => requests)).toEqual([]);
  }
});

test('an abort is passed on to P, and a stop string ends the answer at D', async () => {
  const { at, router, ask } = world('bidirectional', 'streamed');
  const controller = new AbortController();
  at('p0').pace = () => new Promise(() => {});
  const turn = router.serve({ conversationId: null, promptTokenIds: [1, 2], signal: controller.signal });
  const first = turn.next();
  await expect.poll(() => at('p0').requests.length).toBe(1);
  controller.abort(new Error('enough'));
  await expect(first).rejects.toThrow('enough');
  expect(at('p0').aborted).toHaveLength(1);

  at('p0').pace = async () => {};
  const stop = String.fromCharCode(answerOf([9, 9], 1) + 33);
  const result = await ask({
    conversationId: 'b',
    promptTokenIds: [9, 9],
    stop: [stop],
    sampling: { maxTokens: 50 },
  });
  expect(result).toMatchObject({ finishReason: 'stop', stopReason: stop });
  expect(at('d0').stopped).toHaveLength(1);
});

describe('a text that takes long to tokenise', () => {
  const idsOf = (text: string) => Array.from(text, (character) => character.charCodeAt(0));

  /** A first turn, and an encoder for a second one that waits for go(). */
  async function slowSecond() {
    const parts = world('bidirectional');
    const first = await parts.ask({
      conversationId: 'c',
      promptText: 'ab',
      encode: async (text) => idsOf(text),
    });
    const before = `ab${first.text}`;
    const asked: string[] = [];
    let go = () => {};
    const encode = async (text: string) => {
      asked.push(text);
      await new Promise<void>((resolve) => {
        go = resolve;
      });
      return idsOf(text);
    };
    return { ...parts, before, asked, encode, go: () => go() };
  }

  test('is tokenised again if another turn of the conversation ended in the meantime', async () => {
    const { ask, before, asked, encode, go } = await slowSecond();
    const slow = ask({ conversationId: 'c', promptText: `${before}x`, encode });
    await expect.poll(() => asked).toEqual(['x']);
    await ask({ conversationId: 'c', promptText: `${before}y`, encode: async (text) => idsOf(text) });
    go();
    await expect.poll(() => asked).toEqual(['x', `${before}x`]);
    go();
    expect((await slow).promptTokenIds).toEqual(idsOf(`${before}x`));
  });

  test('leaves the hold for the next turn if its client left in the meantime', async () => {
    const { at, router, ask, before, asked, encode, go } = await slowSecond();
    const controller = new AbortController();
    const { signal } = controller;
    const slow = router.serve({ conversationId: 'c', promptText: `${before}x`, encode, signal }).next();
    await expect.poll(() => asked).toEqual(['x']);
    controller.abort(new Error('gone'));
    go();
    await expect(slow).rejects.toThrow('gone');
    expect(at('p0').requests).toHaveLength(1);
    expect(at('d0').released).toEqual([]);
    const next = await ask({ conversationId: 'c', promptText: `${before}y` });
    expect(next.prompt.pulledTokens).toBeGreaterThan(0);
  });
});

describe('a text that continues an answer which an EOS token ended', () => {
  const idsOf = (text: string) => Array.from(text, (character) => character.charCodeAt(0));
  const eos = answerOf(idsOf('ab'), 1);

  test.each([
    ['has one EOS token if the text includes it', `${String.fromCharCode(eos)}cd`, [eos, ...idsOf('cd')]],
    ['has no EOS token if the text does not include it', 'cd', idsOf('cd')],
  ])('%s', async (_, more, added) => {
    const { at, ask } = world('monolithic', 'pull', ['p0', 'd0'], ROUND_ROBIN, { eosTokenIds: [eos] });
    const d = at('d0');
    let tokens = 0;
    d.pace = async () => {
      if (++tokens === 2) d.stopped.push(d.requests[0]!.requestId);
    };
    const first = await ask({ promptText: 'ab' });
    expect(first).toMatchObject({ finishReason: 'stop', stopReason: null, text: first.text[0] });
    expect(first.outputTokenIds.at(1)).toBe(eos);
    const next = await ask({ promptText: `ab${first.text}${more}` });
    expect(next.promptTokenIds).toEqual([...idsOf('ab'), first.outputTokenIds.at(0), ...added]);
  });
});

describe('routing', () => {
  const tracked = () => {
    const events: RoutingEvent[] = [];
    const policy = { ...ROUND_ROBIN, observe: (event: RoutingEvent) => void events.push(event) };
    return { events, policy };
  };

  test('tells the policy when each turn is planned, prefilled, has its first token and has ended', async () => {
    const { events, policy } = tracked();
    const { converse } = world('bidirectional', 'pull', ['p0', 'd0'], policy);
    const [first] = await converse(2);
    expect(events.map(({ kind, number }) => `${number} ${kind}`)).toEqual([
      '0 planned',
      '0 prefilled',
      '0 first token',
      '0 ended',
      '1 planned',
      '1 prefilled',
      '1 first token',
      '1 ended',
    ]);
    expect(events[0]).toMatchObject({ prefill: 'p0', decode: 'd0', promptTokens: 4 });
    expect(events[1]).toMatchObject({ engineId: 'p0', prompt: { promptTokens: 4 } });
    expect(events[2]).toMatchObject({ engineId: 'd0', ttftMs: first!.ttftMs });
    expect(events[3]).toMatchObject({ outputTokens: 4 });
  });

  test('tells the policy the end of each plan once, if a turn fails over, fails or is abandoned', async () => {
    const { events, policy } = tracked();
    const { at, ask, router } = world('bidirectional', 'pull', ['p0', 'd0'], policy);
    at('p0').fails = () => 'its KV did not arrive';
    await ask({ promptTokenIds: [1, 2], failover: true });
    await expect(ask({ promptTokenIds: [1, 2] })).rejects.toThrow('its KV did not arrive');
    at('p0').fails = () => null;
    const left = router.serve({ conversationId: null, promptTokenIds: [1, 2], sampling: { maxTokens: 4 } });
    await left.next();
    await left.return(undefined);
    const kinds = events.map(({ kind, number }) => `${number} ${kind}`);
    for (const number of [0, 1, 2]) {
      const of = kinds.filter((kind) => /planned|ended/.test(kind) && kind.startsWith(`${number} `));
      const plans = number === 0 ? 2 : 1;
      expect(of).toEqual(
        Array(plans)
          .fill([`${number} planned`, `${number} ended`])
          .flat(),
      );
    }
  });

  /** The least busy, of equals the first; `counts` has what each turn's plan saw in flight. */
  const leastBusy = () => {
    const counts: Record<string, number>[] = [];
    const least = policyOf('least-request', {}, [0]);
    const policy: RoutingPolicy = {
      route: (request, candidates) => {
        const engines = [...candidates.prefill, ...candidates.decode];
        counts.push(Object.fromEntries(engines.map(({ engineId, inFlight }) => [engineId, inFlight])));
        return least.route(request, candidates);
      },
    };
    return { counts, policy };
  };

  test('counts a turn at its D while P prefills', async () => {
    const { counts, policy } = leastBusy();
    const { at, ask } = world('unidirectional', 'pull', ['p0', 'd0', 'd1'], policy);
    let prefill = () => {};
    const prefilling = new Promise<void>((resolve) => {
      prefill = resolve;
    });
    at('p0').pace = () => prefilling;
    const turns = [ask({ conversationId: 'a', promptTokenIds: [1] })];
    await settled();
    turns.push(ask({ conversationId: 'b', promptTokenIds: [2] }));
    await settled();
    expect(at('d0').requests).toEqual([]);
    prefill();
    await Promise.all(turns);
    await ask({ conversationId: 'c', promptTokenIds: [3] });
    expect(counts).toEqual([
      { p0: 0, d0: 0, d1: 0 },
      { p0: 1, d0: 1, d1: 0 },
      { p0: 0, d0: 0, d1: 0 },
    ]);
    expect(at('d1').requests).toHaveLength(1);
  });

  test('counts turns of the same moment', async () => {
    const engines = ['p0', 'p1', 'd0', 'd1'];
    const { at, ask } = world('unidirectional', 'streamed', engines, leastBusy().policy);
    await Promise.all(['a', 'b'].map((conversationId) => ask({ conversationId, promptTokenIds: [1] })));
    expect(engines.map((id) => at(id).requests.length)).toEqual([1, 1, 1, 1]);
  });

  test('no longer counts a turn that failed, was abandoned or failed over, and never for itself', async () => {
    const { counts, policy } = leastBusy();
    const { at, ask, router } = world('unidirectional', 'pull', ['p0', 'd0', 'd1'], policy);
    at('p0').fails = () => 'its KV did not arrive';
    await expect(ask({ promptTokenIds: [1] })).rejects.toThrow('its KV did not arrive');
    await ask({ promptTokenIds: [1], failover: true });
    expect(at('d0').requests).toHaveLength(1);
    at('p0').fails = () => null;
    const left = router.serve({ conversationId: null, promptTokenIds: [1], sampling: { maxTokens: 4 } });
    await left.next();
    await left.return(undefined);
    await ask({ promptTokenIds: [1] });
    expect(counts).toEqual(Array(4).fill({ p0: 0, d0: 0, d1: 0 }));
  });

  test('records the chosen engines, the candidates and their scores in the result', async () => {
    const { converse } = world('bidirectional', 'pull', ['p0', 'd0', 'd1'], policyOf('least-request'));
    const [, second] = await converse(2);
    expect(second!.routed).toMatchObject({
      policy: 'test',
      way: 'pull',
      prefill: 'p0',
      load: expect.stringMatching(/^d[01]$/),
      predictedTtftMs: null,
    });
    expect(second!.routed!.candidates.map(({ engineId, side, score }) => [engineId, side, score])).toEqual([
      ['p0', 'prefill', 0],
      ['d0', 'decode', 0],
      ['d1', 'decode', 0],
    ]);
    const report = turnReport('a', 2, second!, [], null).routing;
    expect(routingSchema.parse(report)).toMatchObject({ way: 'pull', candidates: { length: 3 } });
  });

  test('reports how a turn was routed that its reader leaves, that is aborted, or that fails', async () => {
    const { at, ask, router, failed } = world('bidirectional');
    const request = { conversationId: 'a', promptTokenIds: [1, 2], sampling: { maxTokens: 4 } };
    const left = router.serve(request);
    await left.next();
    await left.return(undefined);
    const client = new AbortController();
    const aborted = router.serve({ ...request, signal: client.signal });
    await aborted.next();
    client.abort(new Error('gone'));
    await expect(aborted.next()).rejects.toThrow('gone');
    at('p0').fails = () => 'its KV did not arrive';
    await expect(ask(request)).rejects.toThrow('its KV did not arrive');
    at('p0').fails = () => null;
    await ask(request);
    expect(failed.map(({ turn, outcome, ttftMs }) => [turn, outcome, ttftMs !== null])).toEqual([
      [1, 'aborted', true],
      [1, 'aborted', true],
      [1, 'failed', false],
    ]);
    expect(failed[0]).toMatchObject({ conversationId: 'a', routed: { prefill: 'p0', decode: 'd0' } });
  });

  test('fails a turn with a clear message if the policy chooses an engine that is not a candidate', async () => {
    const gone: RoutingPolicy = {
      route: (request, candidates) => {
        const routing = ROUND_ROBIN.route(request, candidates);
        return { ...routing, decode: { ...routing.decode, engineId: 'd9' } };
      },
    };
    const { ask } = world('bidirectional', 'pull', ['p0', 'd0'], gone);
    await expect(ask({ promptTokenIds: [1] })).rejects.toThrow(
      'the routing policy chose d9 to decode, which is not a candidate',
    );
  });
});

test('a turn whose client leaves ends at once while the hold of its conversation is being moved', async () => {
  const { router, conversations, converse } = world('bidirectional');
  const [first] = await converse(1);
  const moved = conversations.move(conversations.known('a')!, () => new Promise(() => {}));
  const client = new AbortController();
  const promptTokenIds = [...first!.promptTokenIds, ...first!.outputTokenIds, 5];
  const turn = router.serve({ conversationId: 'a', promptTokenIds, signal: client.signal }).next();
  client.abort(new Error('the client left'));
  await expect(turn).rejects.toThrow('the client left');
  expect(conversations.moving(conversations.known('a')!)).not.toBeNull();
  void moved;
});
