import { expect, test } from 'vitest';
import {
  type EngineView,
  planAgain,
  planTurn,
  type RouteRequest,
  type RoutingPolicy,
} from '../../src/router/plan.ts';
import { ROUND_ROBIN, view } from './policies.ts';

const request: RouteRequest = {
  number: 0,
  promptTokenIds: [1, 2, 3],
  turnsBefore: 1,
  mode: 'bidirectional',
  handover: 'pull',
  nowMs: 0,
  conversationId: 'a',
  held: null,
  cachedTokens: () => 0,
};
const plan = (change: Partial<RouteRequest>, engines = [view('p0'), view('d0')]) =>
  planTurn({ ...request, ...change }, engines, ROUND_ROBIN);

test.each([
  ['monolithic', 0, { way: 'alone', engineId: 'd0' }],
  ['monolithic', 3, { way: 'alone', engineId: 'd0' }],
  ['decode-local', 0, { way: 'pull', prefill: 'p0', decode: 'd0', load: null }],
  ['decode-local', 1, { way: 'alone', engineId: 'd0' }],
  ['unidirectional', 1, { way: 'pull', prefill: 'p0', decode: 'd0', load: null }],
  ['bidirectional', 1, { way: 'pull', prefill: 'p0', decode: 'd0', load: { from: 'd0' } }],
] as const)(
  'the plan in mode %s after %i turns has the way and engines of that mode',
  (mode, turnsBefore, expected) => {
    expect(plan({ mode, turnsBefore, held: { engineId: 'd0', tokens: 3 } })).toMatchObject(expected);
  },
);

test('the way of a turn over two engines is the configured handover', () => {
  expect(plan({ handover: 'streamed' })).toMatchObject({ way: 'streamed', prefill: 'p0', decode: 'd0' });
});

test('KV that another D holds is loaded from there, whichever D serves', () => {
  const engines = [view('p0'), view('d0'), view('d1')];
  expect(plan({ number: 1, held: { engineId: 'd0', tokens: 3 } }, engines)).toMatchObject({
    decode: 'd1',
    load: { from: 'd0' },
  });
});

test('round robin counts each role separately, and skips engines that ended', () => {
  const engines = [view('p0'), view('p1'), view('d0'), view('d1'), view('d2')];
  const pairs = (all: EngineView[]) =>
    [0, 1, 2, 3].map((number) => {
      const made = plan({ number }, all);
      return made.way === 'alone' ? made.engineId : `${made.prefill} ${made.decode}`;
    });
  expect(pairs(engines)).toEqual(['p0 d0', 'p1 d1', 'p0 d2', 'p1 d0']);
  const ended = engines.map((engine) => (engine.engineId === 'd1' ? { ...engine, ended: true } : engine));
  expect(pairs(ended)).toEqual(['p0 d0', 'p1 d2', 'p0 d0', 'p1 d2']);
});

test('if all engines of a role ended, the plan names one, so that the turn fails with its error', () => {
  const engines = [view('p0', { ended: true }), view('d0')];
  expect(plan({}, engines)).toMatchObject({ prefill: 'p0', decode: 'd0' });
});

test('after a failure each live engine is tried alone once, D engines first', () => {
  const engines = [view('p0'), view('d0', { ended: true }), view('d1')];
  const tried = new Set<string>();
  const order: string[] = [];
  for (let next = planAgain(3, engines, tried); next; next = planAgain(3, engines, tried)) {
    order.push(next.engineId);
    tried.add(next.engineId);
  }
  expect(order).toEqual(['d1', 'p0']);
});

test('after a failure the prompt’s rolesets come first, then D engines, then less busy ones', () => {
  const rolesets = [
    { name: 'a', min: 0, max: 2 },
    { name: 'b', min: 3, max: null },
  ];
  const engines = [
    view('d0', { roleset: 'a' }),
    view('p1', { roleset: 'b' }),
    view('d1', { roleset: 'b', inFlight: 2 }),
    view('d2', { roleset: 'b', inFlight: 1 }),
  ];
  const tried = new Set<string>();
  for (const expected of ['d2', 'd1', 'p1', 'd0', undefined]) {
    const next = planAgain(3, engines, tried, { mode: 'pooled', rolesets });
    expect(next?.engineId).toBe(expected);
    if (next) tried.add(next.engineId);
  }
});

test('a policy may let P recompute what another engine holds', () => {
  const recompute: RoutingPolicy = {
    route: (_, { prefill, decode }) => ({
      prefill: prefill[0]!,
      decode: decode[0]!,
      recompute: true,
      why: 'sooner',
    }),
  };
  const asked = { ...request, held: { engineId: 'd0', tokens: 3 } };
  expect(planTurn(asked, [view('p0'), view('d0')], recompute)).toMatchObject({ way: 'pull', load: null });
});

test('a turn that the policy refuses fails with the policy’s reason', () => {
  const refusing: RoutingPolicy = {
    route: (_, { prefill, decode }) => ({
      prefill: prefill[0]!,
      decode: decode[0]!,
      refused: 'too late',
      why: '',
    }),
  };
  expect(() => planTurn(request, [view('p0'), view('d0')], refusing)).toThrow('refuses the turn: too late');
});
