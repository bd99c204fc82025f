/** The simple policies, each against cases worked out by hand. */
import { describe, expect, test } from 'vitest';
import type { EngineView, RouteRequest } from '../../../src/router/plan.ts';
import { sampleOf } from '../../../src/router/policies/prefix-cache.ts';
import { fnv64a } from '../../../src/router/policies/session-affinity.ts';
import { policyOf, routeRequest, view } from '../policies.ts';

/** Engines d0, d1, ... with these numbers of requests under way; p0 prefills. */
const decoders = (...counts: number[]): EngineView[] =>
  counts.map((inFlight, i) => view(`d${i}`, { inFlight }));
const p0 = view('p0');

function chosen(
  name: string,
  decode: readonly EngineView[],
  more: { request?: Partial<RouteRequest>; parameters?: object; draws?: readonly number[] } = {},
) {
  const policy = policyOf(name, more.parameters, more.draws);
  const routing = policy.route(routeRequest(more.request), { prefill: [p0], decode });
  expect(routing.prefill).toBe(p0);
  return routing.decode.engineId;
}

/** Prompts have 100 tokens, so these are percentages too. */
const cached = (tokens: Record<string, number>) => ({ cachedTokens: (id: string) => tokens[id] ?? 0 });

describe('round-robin', () => {
  test.each([
    [0, [0], 'd0'],
    [7, [0], 'd0'],
    [0, [5, 0], 'd0'],
    [1, [0, 5], 'd1'],
    [5, [0, 0, 0], 'd2'],
  ])('sends turn %i, with %j requests under way, to %s', (number, counts, expected) => {
    expect(chosen('round-robin', decoders(...counts), { request: { number } })).toBe(expected);
  });
});

describe('random', () => {
  // P draws first; the second draw is D's.
  test.each([
    [[0.5, 0], 3, 'd0'],
    [[0.5, 0.333], 3, 'd0'],
    [[0.5, 0.334], 3, 'd1'],
    [[0.5, 0.9999], 3, 'd2'],
    [[0.5, 0.9999], 1, 'd0'],
  ])('with draws %j among %i engines picks %s', (draws, engines, expected) => {
    expect(chosen('random', decoders(...Array(engines).fill(0)), { draws })).toBe(expected);
  });

  test('draws the same for the same turn, and every engine over several turns', () => {
    const four = decoders(0, 0, 0, 0);
    const ids = Array.from({ length: 40 }, (_, number) => chosen('random', four, { request: { number } }));
    expect(ids).toEqual(
      Array.from({ length: 40 }, (_, number) => chosen('random', four, { request: { number } })),
    );
    expect(new Set(ids).size).toBe(4);
  });
});

describe('power-of-two', () => {
  // The only P takes one draw. D takes two: one of all engines, and one of the others in their order.
  test.each([
    ['the only engine', [3], [0, 0], 'd0'],
    ['the second draw if it has fewer requests', [3, 0, 2], [0, 0, 0.9], 'd2'],
    ['the first draw if it has fewer requests', [1, 9, 2], [0, 0, 0.9], 'd0'],
    ['the first draw of equals', [2, 2, 2], [0, 0.4, 0.9], 'd1'],
    ['one of the two draws, not the least busy of all', [4, 0, 3], [0, 0, 0.9], 'd2'],
    ['between two different engines', [0, 1], [0, 0.9, 0.9], 'd0'],
  ])('picks %s', (_, counts, draws, expected) => {
    expect(chosen('power-of-two', decoders(...counts), { draws })).toBe(expected);
  });

  test('scores the two that it compared', () => {
    const policy = policyOf('power-of-two', {}, [0, 0, 0.9]);
    const { scores } = policy.route(routeRequest(), { prefill: [p0], decode: decoders(4, 0, 3) });
    expect(scores?.map(({ engineId, score }) => [engineId, score])).toEqual([
      ['d0', 4],
      ['d2', 3],
    ]);
  });
});

describe('least-request', () => {
  test.each([
    ['the only engine', [9], [0, 0.9], 'd0'],
    ['the engine with the fewest requests', [2, 1, 3], [0, 0.9], 'd1'],
    ['one of equals by a draw', [1, 1, 3], [0, 0], 'd0'],
    ['another of equals by another draw', [1, 1, 3], [0, 0.9], 'd1'],
    ['any by a draw if all are equal', [0, 0, 0], [0, 0.5], 'd1'],
  ])('picks %s', (_, counts, draws, expected) => {
    expect(chosen('least-request', decoders(...counts), { draws })).toBe(expected);
  });

  test('uses the router’s own counts, whatever engines report', () => {
    const signals = {
      atMs: 0,
      running: 50,
      waiting: 9,
      waitingForRemote: 0,
      freeBlocks: 1,
      numBlocks: 9,
      promptTokensPerSecond: 0,
      generationTokensPerSecond: 0,
      endedPerSecond: 0,
    };
    expect(chosen('least-request', [view('d0', { inFlight: 1 }), view('d1', { signals })])).toBe('d1');
  });
});

describe('session-affinity', () => {
  test('hashes with 64-bit FNV-1a', () => {
    const hex = (text: string) => {
      const { high, low } = fnv64a(text);
      return [high, low].map((half) => half.toString(16).padStart(8, '0')).join('');
    };
    // The reference's test vectors (Fowler, Noll, Vo).
    expect(hex('')).toBe('cbf29ce484222325');
    expect(hex('a')).toBe('af63dc4c8601ec8c');
    expect(hex('foobar')).toBe('85944171f73967e8');
  });

  test('hashes key, zero byte and engine as one text, and picks the highest hash', () => {
    const wide = (text: string) => {
      let hash = 0xcbf29ce484222325n;
      for (const byte of new TextEncoder().encode(text))
        hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
      return hash;
    };
    for (const conversationId of ['a', 'b', 'chat-7', 'ü', '']) {
      const ids = ['d0', 'd1', 'd2', 'd3'];
      const [best] = ids.toSorted((a, b) =>
        wide(`${conversationId}\0${a}`) > wide(`${conversationId}\0${b}`) ? -1 : 1,
      );
      expect(chosen('session-affinity', decoders(0, 9, 0, 0), { request: { conversationId } })).toBe(best);
    }
  });

  test('moves only the conversations of the engine that leaves', () => {
    const five = decoders(0, 0, 0, 0, 0);
    for (let i = 0; i < 200; i++) {
      const request = { conversationId: `c${i}`, number: i };
      const before = chosen('session-affinity', five, { request });
      const after = chosen(
        'session-affinity',
        five.filter(({ engineId }) => engineId !== 'd3'),
        { request },
      );
      if (before !== 'd3') expect(after).toBe(before);
    }
  });

  test('picks the only engine, and ignores keys longer than 256 characters', () => {
    expect(chosen('session-affinity', decoders(4))).toBe('d0');
    const route = (length: number, draw: number) =>
      chosen('session-affinity', decoders(0, 0, 0), {
        request: { conversationId: 'k'.repeat(length) },
        draws: [draw],
      });
    expect(route(256, 0)).toBe(route(256, 0.9));
    expect([route(257, 0), route(257, 0.9)]).toEqual(['d0', 'd2']);
  });
});

describe('prefix-cache', () => {
  test('uses the sample deviation', () => {
    expect(sampleOf([1, 3])).toEqual({ mean: 2, deviation: Math.sqrt(2) });
    expect(sampleOf([5])).toEqual({ mean: 5, deviation: 0 });
  });

  test.each([
    ['the only engine', [3], {}, 'd0'],
    ['the longest match', [1, 1, 1], { d1: 48, d2: 64 }, 'd2'],
    ['the least busy engine among equal matches', [2, 1, 2], { d0: 64, d1: 64 }, 'd1'],
    ['the least busy engine if nothing is cached', [2, 1, 2], {}, 'd1'],
    // 0 and 8 are 8 apart, which is not above the imbalance. Mean 4, deviation 5.66: 8 is below 9.66.
    ['the match if counts are exactly at the imbalance', [8, 0], { d0: 64 }, 'd0'],
    ['the least busy engine if counts are above the imbalance', [9, 0], { d0: 64 }, 'd1'],
    // Mean 3, deviation 1.73: the limit is 4.73.
    ['the next match if the best one is too busy', [5, 2, 2], { d0: 96, d1: 16 }, 'd1'],
    ['the least busy engine if the only match is too busy', [6, 3, 3, 2], { d0: 96 }, 'd3'],
    // Mean 2, deviation 0: 2 is not above the limit.
    ['the match if it is exactly at mean plus deviation', [2, 2], { d1: 16 }, 'd1'],
  ])('picks %s', (_, counts, tokens, expected) => {
    expect(chosen('prefix-cache', decoders(...counts), { request: cached(tokens) })).toBe(expected);
  });

  test('follows its parameters', () => {
    const request = cached({ d0: 64 });
    expect(chosen('prefix-cache', decoders(9, 0), { request, parameters: { imbalance: 9 } })).toBe('d0');
    // Mean 4.5: without deviations 9 is too busy.
    expect(
      chosen('prefix-cache', decoders(9, 0), { request, parameters: { imbalance: 9, deviations: 0 } }),
    ).toBe('d1');
  });
});

test('P is chosen by the same rule as D, from the engines that prefill', () => {
  const prefill = [view('p0', { inFlight: 3 }), view('p1', { inFlight: 1 })];
  const { why, scores, ...routing } = policyOf('least-request').route(routeRequest(), {
    prefill,
    decode: decoders(1, 0),
  });
  expect([routing.prefill.engineId, routing.decode.engineId]).toEqual(['p1', 'd1']);
  expect(why).toBe('P: fewest under way, 1; D: fewest under way, 0');
  expect(scores).toContainEqual({ engineId: 'p0', side: 'prefill', score: 3, best: 'least' });
});
