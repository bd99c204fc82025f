import { describe, expect, test } from 'vitest';
import { RequestError } from '../../src/errors.ts';
import { type Placement, place } from '../../src/router/placement.ts';
import { type EngineView, planTurn, type RouteRequest } from '../../src/router/plan.ts';
import { ROUND_ROBIN } from './policies.ts';

/** 'a.p0' is a P of roleset a, 'b.d1' a D of b, 'a.c0' a combined engine of a. A trailing 'x': it has ended. */
function view(id: string): EngineView {
  const [roleset, name] = id.replace('x', '').split('.') as [string, string];
  return {
    engineId: id.replace('x', ''),
    role: name.startsWith('p') ? 'prefill' : 'decode',
    roleset,
    combined: name.startsWith('c'),
    ended: id.endsWith('x'),
    inFlight: 0,
    signals: null,
  };
}

const bounds = (name: string, min: number, max: number | null) => ({ name, min, max });
const open = [bounds('a', 0, null), bounds('b', 0, null)];
const short = [bounds('a', 0, 100), bounds('b', 101, null)];

describe.each<[string, Placement['mode'], Placement['rolesets'], string, number, string, string, string]>([
  // case, mode, rolesets, engines, prompt tokens, P candidates, D candidates, served by a pair or by one engine alone
  [
    'two rolesets whose engines are pooled',
    'pooled',
    open,
    'a.p0 a.d0 b.p0 b.d0',
    9,
    'a.p0 b.p0',
    'a.d0 b.d0',
    'pair',
  ],
  [
    'one role ended in each pooled roleset',
    'pooled',
    open,
    'a.p0x a.d0 b.p0 b.d0x',
    9,
    'b.p0',
    'a.d0',
    'pair',
  ],
  ['two whole rolesets', 'replica', open, 'a.p0 a.d0 b.p0 b.d0', 9, 'a.p0 b.p0', 'a.d0 b.d0', 'pair'],
  ['a roleset without a P', 'replica', open, 'a.p0x a.d0 b.p0 b.d0', 9, 'b.p0', 'b.d0', 'pair'],
  ['a roleset without a D', 'replica', open, 'a.p0 a.d0x b.p0 b.d0', 9, 'b.p0', 'b.d0', 'pair'],
  ['halves of two rolesets', 'replica', open, 'a.p0 a.d0x b.p0x b.d0 b.c0', 9, 'b.c0', 'b.c0', 'alone'],
  ['halves of two pooled rolesets', 'pooled', open, 'a.p0 a.d0x b.p0x b.d0 b.c0', 9, 'a.p0', 'b.d0', 'pair'],
  [
    'no whole roleset, which names an ended engine',
    'replica',
    open,
    'a.p0 a.d0x b.p0x b.d0',
    9,
    'a.p0',
    'a.d0',
    'pair',
  ],
  ['combined engines only', 'pooled', open, 'a.c0 a.c1 b.c0x', 9, 'a.c0 a.c1', 'a.c0 a.c1', 'alone'],
  ['combined engines only, all ended', 'pooled', open, 'a.c0x', 9, 'a.c0', 'a.c0', 'alone'],
  ['a prompt exactly at an upper bound', 'pooled', short, 'a.p0 a.d0 b.p0 b.d0', 100, 'a.p0', 'a.d0', 'pair'],
  ['a prompt exactly at a lower bound', 'pooled', short, 'a.p0 a.d0 b.p0 b.d0', 101, 'b.p0', 'b.d0', 'pair'],
  [
    'the only roleset for the prompt ended, which no other replaces',
    'pooled',
    short,
    'a.p0x a.d0 b.p0 b.d0',
    100,
    'a.p0',
    'a.d0',
    'pair',
  ],
  [
    'a combined engine in the only roleset for the prompt',
    'replica',
    short,
    'a.p0x a.d0 a.c0 b.c0',
    100,
    'a.c0',
    'a.c0',
    'alone',
  ],
])('placement with %s', (_, mode, rolesets, engines, promptTokens, prefill, decode, way) => {
  test(`gives the expected candidates, ${mode}: ${engines}`, () => {
    const views = engines.split(' ').map(view);
    const placed = place({ promptTokens, alone: false }, views, { mode, rolesets });
    const ids = (list: readonly EngineView[]) => list.map(({ engineId }) => engineId).join(' ');
    expect([ids(placed.prefill), ids(placed.decode), placed.alone]).toEqual([
      prefill,
      decode,
      way === 'alone',
    ]);
  });
});

test('a turn for one engine goes to any live D or combined engine, and needs no P', () => {
  const placement: Placement = { mode: 'replica', rolesets: open };
  const one = (engines: string) =>
    place({ promptTokens: 9, alone: true }, engines.split(' ').map(view), placement).decode.map(
      (e) => e.engineId,
    );
  expect(one('a.p0x a.d0 b.p0 b.d0 b.c0')).toEqual(['a.d0', 'b.d0', 'b.c0']);
  expect(one('a.p0x a.d0x b.p0 b.d0')).toEqual(['b.d0']);
});

test('a prompt that no roleset takes is refused', () => {
  const placement: Placement = { mode: 'pooled', rolesets: [bounds('a', 10, 100)] };
  const at = (promptTokens: number) => () =>
    place({ promptTokens, alone: false }, [view('a.p0'), view('a.d0')], placement);
  expect(at(10)).not.toThrow();
  expect(at(100)).not.toThrow();
  for (const tokens of [9, 101]) expect(at(tokens)).toThrow(RequestError);
  expect(at(101)).toThrow('no roleset takes a prompt of 101 tokens: there are a 10 to 100');
});

const request: RouteRequest = {
  number: 0,
  nowMs: 0,
  conversationId: 'c',
  promptTokenIds: [1, 2, 3],
  turnsBefore: 1,
  mode: 'bidirectional',
  handover: 'pull',
  held: null,
  cachedTokens: () => 0,
};

test('round robin over two rolesets keeps each turn within one, and reaches every engine', () => {
  const views = 'a.p0 a.d0 a.d1 b.p0 b.d0 b.d1'.split(' ').map(view);
  const placement: Placement = { mode: 'replica', rolesets: open };
  const pairs = Array.from({ length: 8 }, (_, number) => {
    const plan = planTurn({ ...request, number }, views, ROUND_ROBIN, placement);
    return plan.way === 'alone' ? plan.engineId : `${plan.prefill} ${plan.decode}`;
  });
  for (const pair of pairs) {
    const [p, d] = pair.split(' ') as [string, string];
    expect(p[0], pair).toBe(d[0]);
  }
  expect(new Set(pairs)).toEqual(new Set(['a.p0 a.d0', 'a.p0 a.d1', 'b.p0 b.d0', 'b.p0 b.d1']));
});

test('a combined engine serves alone without a pair, and the plan says why', () => {
  const views = 'a.p0x a.d0 b.c0'.split(' ').map(view);
  const plan = planTurn(request, views, ROUND_ROBIN, { mode: 'pooled', rolesets: open });
  expect(plan).toMatchObject({ way: 'alone', engineId: 'b.c0', why: expect.stringMatching(/^no P and D/) });
});
