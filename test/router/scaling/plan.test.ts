import { describe, expect, it } from 'vitest';
import { planScale, type Scalable } from '../../../src/router/scaling/plan.ts';

const engine = (name: string, more: Partial<Scalable> = {}): Scalable => ({
  name,
  role: name.startsWith('prefill') ? 'prefill' : 'decode',
  combined: name.startsWith('both'),
  roleset: 'all',
  ended: false,
  turns: 0,
  heldTokens: 0,
  ...more,
});
const pair = [engine('prefill-0'), engine('decode-0')];

describe('scaling up', () => {
  it('uses the first free names across all rolesets', () => {
    const fleet = [
      ...pair,
      engine('decode-2', { roleset: 'other' }),
      engine('prefill-1', { roleset: 'other' }),
    ];
    expect(planScale({ decode: 3, roleset: 'all' }, fleet)).toEqual({
      add: [
        { name: 'decode-1', role: 'decode', roleset: 'all' },
        { name: 'decode-3', role: 'decode', roleset: 'all' },
      ],
      remove: [],
    });
  });

  it('adds no engine if there are as many as wanted or the role is not given', () => {
    expect(planScale({ prefill: 1 }, pair)).toEqual({ add: [], remove: [] });
    expect(planScale({}, pair)).toEqual({ add: [], remove: [] });
  });
});

describe('scaling down', () => {
  it.each([
    ['an engine that ended', { 'decode-0': { ended: true, turns: 3 }, 'decode-1': {} }, 'decode-0'],
    ['the engine with fewer turns', { 'decode-0': { turns: 1 }, 'decode-1': { turns: 2 } }, 'decode-0'],
    [
      'the engine that holds fewer tokens',
      { 'decode-0': { heldTokens: 5 }, 'decode-1': { heldTokens: 6 } },
      'decode-0',
    ],
    ['the last of equal engines', { 'decode-0': {}, 'decode-1': {}, 'decode-10': {} }, 'decode-10'],
  ])('removes %s', (_, decodes, leaves) => {
    const engines = Object.entries(decodes).map(([name, more]) => engine(name, more));
    const target = { decode: engines.length - 1 };
    expect(planScale(target, [engine('prefill-0'), ...engines])).toEqual({ add: [], remove: [leaves] });
  });

  it('removes engines of the named roleset only, and no combined engine', () => {
    const fleet = [
      ...pair,
      engine('prefill-1', { roleset: 'b' }),
      engine('decode-1', { roleset: 'b' }),
      engine('decode-2', { roleset: 'b' }),
      engine('both-0'),
    ];
    expect(planScale({ prefill: 1, decode: 1, roleset: 'b' }, fleet).remove).toEqual(['decode-2']);
  });
});

it.each([
  [
    { prefill: 0 },
    pair,
    'cannot scale prefill to 0: without a P nothing is served; give a whole number from 1 to 64',
  ],
  [{ decode: 65 }, pair, 'cannot scale decode to 65: each D is a thread and a device; give a whole number'],
  [{ decode: 1.5 }, pair, 'cannot scale decode to 1.5'],
  [{ decode: 1, roleset: 'b' }, pair, 'there is no roleset b with P and D: wanted one of all'],
  [
    { decode: 1 },
    [...pair, engine('decode-1', { roleset: 'b' })],
    'the fleet has rolesets all, b: name the one',
  ],
  [{ decode: 1 }, [engine('both-0')], 'every engine does both: there is no P or D to scale'],
])('a target of %j is refused with a clear message (case %$)', (target, engines, message) => {
  expect(() => planScale(target, engines)).toThrow(message);
});
