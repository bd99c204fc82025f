import { describe, expect, test } from 'vitest';
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import { parseRunConfig } from '../../../src/config/run.ts';
import type { EngineView, Routing, RoutingPolicy, RoutingScore } from '../../../src/router/plan.ts';
import { mixed } from '../../../src/router/policies/mix.ts';
import { makePolicy, POLICIES } from '../../../src/router/policies/registry.ts';
import { DEPS, policyOf, routeRequest, view } from '../policies.ts';

const refusal = (name: string, parameters: Record<string, unknown> = {}) => {
  try {
    makePolicy({ name, parameters }, DEPS);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was refused');
};

describe('the policy', () => {
  test.each(ROUTING_NAMES)('%s has a help text and a source, and routes to the only engines', (name) => {
    const { help, source } = POLICIES[name];
    expect(help.length).toBeGreaterThan(10);
    expect(source.length).toBeGreaterThan(3);
    const [prefill, decode] = [[view('p0')], [view('d0')]];
    const policy = policyOf(name);
    const request = routeRequest();
    const routing = policy.route(request, { prefill, decode });
    expect(routing.prefill).toBe(prefill[0]);
    expect(routing.decode).toBe(decode[0]);
    expect(policy.route(request, { prefill, decode })).toEqual(routing);
  });

  test.each(ROUTING_NAMES)('%s refuses an unknown parameter', (name) => {
    expect(refusal(name, { [name]: { nonsense: 1 } })).toContain(
      `--routing-config: ${name} has no parameter 'nonsense'`,
    );
  });
});

describe('an error', () => {
  test('about an unknown name suggests the nearest parameter or policy', () => {
    expect(refusal('prefix-cache', { 'prefix-cache': { imbalanc: 3 } })).toBe(
      "--routing-config: prefix-cache has no parameter 'imbalanc' (did you mean imbalance?); it has, defaults first, imbalance=8, deviations=1",
    );
    expect(refusal('random', { 'prefix-cache': { imbalanc: 3 } })).toContain('(did you mean imbalance?)');
    expect(refusal('random', { 'prefix-cach': {} })).toContain('(did you mean prefix-cache?)');
    expect(refusal('prefix-cache', { 'prefix-cache': { imbalance: 'much' } })).toContain(
      'prefix-cache.imbalance is "much": wanted a number',
    );
    expect(refusal('prefix-cache', { 'prefix-cache': { imbalance: -1 } })).toContain('wanted 0 or more');
  });

  test('lists what the part of the configuration that has it takes', () => {
    expect(refusal('sglang', { sglang: { prefilPolicy: 'bucket' } })).toContain(
      'defaults first, prefillPolicy=cache_aware|bucket|power_of_two|round_robin|random, decodePolicy=power_of_two|',
    );
    expect(refusal('mooncake', { mooncake: { slo: 1 } })).toContain('ttftSloMs=null');
    const picker = { kind: 'EndpointPickerConfig', plugins: [], schedulingProfiles: [] };
    const refused = (more: object) => refusal('llm-d', { 'llm-d': { ...picker, ...more } });
    expect(refused({ gates: [] })).toMatch(
      /llm-d has no parameter 'gates'.*; it has, .*plugins, schedulingProfiles/,
    );
    expect(refused({ plugins: [{ type: 'decode-filter', nam: 'x' }] })).toContain(
      "llm-d.plugins.0 has no parameter 'nam' (did you mean name?); it has, defaults first, type: ",
    );
    expect(refused({ plugins: [{ type: 'encode-filter' }] })).toContain('plugins.0.type is "encode-filter"');
    const profile = { name: 'default', plugins: [] };
    expect(refused({ schedulingProfiles: [profile] })).toContain(
      'name is "default": wanted one of prefill, decode',
    );
    expect(refused({ plugins: [{ type: 'prefix-based-pd-decider', parameters: { tokens: 1 } }] })).toContain(
      "llm-d has no parameter 'tokens'; it has, defaults first, decider=",
    );
  });

  test.each([
    ['round-robbin', "there is no 'round-robbin' (did you mean round-robin?)"],
    ['', 'there is no'],
    ['random,', 'there is no'],
    ['random:0', 'a weight above 0 for random'],
    ['random:much', 'a weight above 0 for random'],
  ])('is thrown for --routing "%s"', (routing, message) => {
    expect(() => parseRunConfig({ routing })).toThrow(message);
  });
});

test('--routing takes policies separated by commas, and adjacent ones with weights form one mix', () => {
  const routing = (text: string) => parseRunConfig({ routing: text }).routing;
  expect(routing('random')).toEqual(['random']);
  expect(routing('random, least-request')).toEqual(['random', 'least-request']);
  expect(routing('random,least-request:1,prefix-cache:2,round-robin')).toEqual([
    'random',
    'least-request:1,prefix-cache:2',
    'round-robin',
  ]);
  const config = parseRunConfig({ routing: 'least-request:1,prefix-cache:2', signalAge: '50ms' });
  expect(parseRunConfig(JSON.parse(JSON.stringify(config)))).toEqual(config);
});

test.each([
  ['50ms', 50],
  ['1.5s', 1500],
  ['0', 0],
  [20, 20],
])('--signal-age %s is read as milliseconds', (signalAge, expected) => {
  expect(parseRunConfig({ signalAge }).signalAge).toBe(expected);
});

test.each(['soon', '-1', '5m'])('--signal-age %s is refused', (signalAge) => {
  expect(() => parseRunConfig({ signalAge })).toThrow('wanted a time such as 50ms');
});

describe('a mix', () => {
  const engines = [view('d0'), view('d1'), view('d2')];
  /** Scores for d0, d1 and d2; p0 is the only P. */
  const scoring = (scores: (number | null)[], best: 'most' | 'least'): RoutingPolicy => ({
    route: (_, { prefill, decode }) => ({
      prefill: prefill[0]!,
      decode: decode[0]!,
      why: '',
      scores: scores.flatMap((score, i): RoutingScore[] =>
        score === null ? [] : [{ engineId: `d${i}`, side: 'decode', score, best }],
      ),
    }),
  });
  const choosing = (pick: (decode: readonly EngineView[]) => EngineView, alone = false): RoutingPolicy => ({
    route: (_, { prefill, decode }) => ({ prefill: prefill[0]!, decode: pick(decode), why: '', alone }),
  });
  const mix = (...parts: [RoutingPolicy, number][]) =>
    mixed(parts.map(([policy, weight], i) => ({ name: `${i}`, policy, weight }))).route(routeRequest(), {
      prefill: [view('p0')],
      decode: engines,
    });
  const sums = (routing: ReturnType<typeof mix>) =>
    routing.scores!.filter(({ side }) => side === 'decode').map(({ score }) => score);

  test('normalises the scores of each policy by their polarity, then weights them', () => {
    // least 10, 20, 30: 1, 0.5, 0; most 0, 4, 8: 0, 0.5, 1. Weights 1 and 3: a quarter and three quarters.
    const routing = mix([scoring([10, 20, 30], 'least'), 1], [scoring([0, 4, 8], 'most'), 3]);
    expect(sums(routing)).toEqual([0.25, 0.5, 0.75]);
    expect(routing.decode.engineId).toBe('d2');
  });

  test('gives 0 to an engine without a score', () => {
    // least 1, -, 3: 1, 0, 0.
    expect(sums(mix([scoring([1, null, 3], 'least'), 2]))).toEqual([1, 0, 0]);
  });

  test('picks the first engine if all scores are equal', () => {
    const routing = mix([scoring([5, 5, 5], 'least'), 1], [scoring([2, 2, 2], 'most'), 1]);
    expect(sums(routing)).toEqual([1, 1, 1]);
    expect(routing.decode.engineId).toBe('d0');
  });

  test('gives the weight of a policy without scores to the engine that it chose', () => {
    const routing = mix([choosing((decode) => decode[1]!), 3], [scoring([1, 1, 2], 'most'), 1]);
    expect(sums(routing)).toEqual([0, 0.75, 0.25]);
    expect(routing.decode.engineId).toBe('d1');
  });

  test('serves on one engine alone if more than half of the weight says so, not at half', () => {
    const first = (decode: readonly EngineView[]) => decode[0]!;
    expect(mix([choosing(first, true), 1], [choosing(first), 1]).alone).toBe(false);
    expect(mix([choosing(first, true), 1.1], [choosing(first), 1]).alone).toBe(true);
  });

  test('recomputes on P, or refuses with the first reason, if more than half of the weight says so', () => {
    const first = choosing((decode) => decode[0]!);
    const saying = (more: Partial<Routing>): RoutingPolicy => ({
      route: (request, candidates) => ({ ...first.route(request, candidates), ...more }),
    });
    const computing = saying({ recompute: true });
    expect(mix([computing, 1], [first, 1]).recompute).toBe(false);
    expect(mix([computing, 2], [first, 1]).recompute).toBe(true);
    expect(mix([saying({ refused: 'late' }), 1], [first, 1]).refused).toBeUndefined();
    const both = mix([first, 1], [saying({ refused: 'late' }), 1], [saying({ refused: 'full' }), 1]);
    expect(both.refused).toBe('late');
    const mooncake = { ttftSloMs: 1 };
    const slo = makePolicy({ name: 'mooncake:9,least-request:1', parameters: { mooncake } }, DEPS);
    const late = slo.route(routeRequest(), { prefill: [view('p0')], decode: engines });
    expect(late.refused).toMatch('above the SLO of 1 ms');
  });

  test('can be written on the command line', () => {
    const decode = [view('d0', { inFlight: 4 }), view('d1', { inFlight: 0 })];
    const request = routeRequest({ cachedTokens: (id) => (id === 'd0' ? 64 : 0) });
    const route = (name: string) => policyOf(name).route(request, { prefill: [view('p0')], decode });
    expect(route('least-request:1,prefix-cache:2').decode.engineId).toBe('d0');
    expect(route('least-request:2,prefix-cache:1').decode.engineId).toBe('d1');
  });
});
