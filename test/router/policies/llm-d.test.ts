import { describe, expect, test } from 'vitest';
import { fromPickerConfig } from '../../../src/router/policies/llm-d/config.ts';
import { type ScorerFacts, scorerScores } from '../../../src/router/policies/llm-d/scorers.ts';
import { weightedRandom } from '../../../src/router/policies/pick.ts';
import { policyOf, routeRequest, view } from '../policies.ts';
import { chosen, ended, scoresOf, sent, tokens, told } from './fleet.ts';

const llmD = (parameters: object = {}) => policyOf('llm-d', parameters);
const facts = (more: Partial<ScorerFacts> = {}): ScorerFacts => ({
  engineId: 'd0',
  believedBlocks: 0,
  cachedBlocks: 0,
  waiting: 0,
  kvUsage: 0,
  activeRequests: 0,
  activeTokens: 0,
  lastColdMs: null,
  holdsSession: false,
  ...more,
});

describe('a scorer', () => {
  test.each([
    ['prefix-cache-scorer', [{ believedBlocks: 3 }, {}], [0.75, 0]],
    ['precise-prefix-cache-scorer', [{ cachedBlocks: 4 }, { cachedBlocks: 1 }], [1, 0.25]],
    ['queue-scorer', [{ waiting: 1 }, { waiting: 5 }, { waiting: 2 }], [1, 0, 0.75]],
    ['queue-scorer', [{ waiting: 5 }, { waiting: 5 }], [1, 1]],
    ['kv-cache-utilization-scorer', [{ kvUsage: 0.25 }, { kvUsage: 1 }], [0.75, 0]],
    ['load-aware-scorer', [{}, { waiting: 64 }, { waiting: 128 }, { waiting: 500 }], [0.5, 0.25, 0, 0]],
    ['active-request-scorer', [{}, { activeRequests: 1 }, { activeRequests: 4 }], [1, 0.75, 0]],
    ['active-request-scorer', [{}, {}], [1, 1]],
    ['token-load-scorer', [{}, { activeTokens: 1_048_576 }, { activeTokens: 5_000_000 }], [1, 0.75, 0]],
    ['no-hit-lru-scorer', [{ lastColdMs: 5 }, {}, { lastColdMs: 3 }], [0, 1, 0.5]],
    ['no-hit-lru-scorer', [{ lastColdMs: 5 }, { cachedBlocks: 1 }], [0.5, 0.5]],
    ['no-hit-lru-scorer', [{ lastColdMs: 5 }], [1]],
    ['session-affinity-scorer', [{}, { holdsSession: true }], [0, 1]],
  ] as const)('of type %s is right for %o', (scorer, engines, expected) => {
    const each = engines.map((engine) => facts(engine));
    expect(scorerScores(scorer, each, 4)).toEqual(expected);
  });

  test('for prefixes gives 0 to a prompt without a whole block', () => {
    expect(scorerScores('prefix-cache-scorer', [facts()], 0)).toEqual([0]);
  });
});

describe('a turn', () => {
  test('is prefilled by P if nothing is known', () => {
    expect(chosen(llmD(), [view('p0')], [view('d0')])).toBe('p0 d0');
  });

  test('weighs the prefix twice, and queue and KV usage once each, by default', () => {
    const d = [told('d0', { waiting: 2, freeBlocks: 50 }), told('d1', { waiting: 0, freeBlocks: 25 })];
    // 96 tokens are 6 blocks, and 48 are 3: 2 * 0.5 + 0 + 0.5 for d0, 0 + 1 + 0.25 for d1.
    const cachedTokens = (engineId: string) => (engineId === 'd0' ? 48 : 0);
    const scores = scoresOf(llmD(), [view('p0')], d, { promptTokenIds: tokens(96), cachedTokens });
    expect(scores).toMatchObject({ d0: 1.5, d1: 1.25 });
  });

  // D lacks 100 tokens minus whole cached blocks of 16.
  test.each([
    [0, 'p0 d0'],
    [84, 'p0 d0'],
    [96, 'd0'],
  ])('with %i tokens cached on D goes to %s', (cached, expected) => {
    expect(chosen(llmD(), [view('p0')], [view('d0')], { cachedTokens: () => cached })).toBe(expected);
  });

  test.each([
    [20, 'p0 d0'],
    [21, 'd0'],
    [0, 'd0'],
  ])('with nonCachedTokens %i and a D that lacks 20 tokens goes to %s', (nonCachedTokens, expected) => {
    const cachedTokens = () => 80;
    expect(chosen(llmD({ nonCachedTokens }), [view('p0')], [view('d0')], { cachedTokens })).toBe(expected);
  });

  test('goes to D alone if its prompt is shorter than promptTokens, but not if it is as long', () => {
    const of = (promptTokens: number) => chosen(llmD({ promptTokens }), [view('p0')], [view('d0')]);
    expect([of(100), of(101)]).toEqual(['p0 d0', 'd0']);
  });

  test('always goes to P first with always-disagg-pd-decider', () => {
    const policy = llmD({ decider: 'always-disagg-pd-decider' });
    expect(chosen(policy, [view('p0')], [view('d0')], { cachedTokens: () => 100 })).toBe('p0 d0');
  });

  test.each([
    [{}, 0, 'D lacks 100 >= 16 tokens'],
    [{}, 96, 'D lacks 4 < 16 tokens'],
    [{ nonCachedTokens: 101 }, 0, 'D lacks 100 < 101 tokens'],
    [{ nonCachedTokens: 0 }, 0, 'nonCachedTokens 0: never disaggregated'],
    [{ promptTokens: 101 }, 0, 'a prompt of 100 < 101 tokens'],
    [{ decider: 'always-disagg-pd-decider' }, 96, 'always disaggregated'],
  ])('with %j and %i tokens cached on D says why: %s', (parameters, cached, why) => {
    const routing = llmD(parameters).route(routeRequest({ cachedTokens: () => cached }), {
      prefill: [view('p0')],
      decode: [view('d0')],
    });
    expect(routing.why.split('; ').at(-1)).toBe(why);
  });

  test('is scored by the tokens under way there: at P those to prefill, at D all prompts', () => {
    const weights = { 'token-load-scorer': 4_194_304 };
    const policy = llmD({ prefill: weights, decode: weights });
    const number = sent(policy, 'p0', 'd0', tokens(100));
    const lacks = () => {
      const scores = scoresOf(policy, [view('p0')], [view('d0')]);
      return [scores.p0, scores.d0].map((score) => 4_194_304 - score!);
    };
    expect(lacks()).toEqual([100, 100]);
    policy.observe?.({ kind: 'prefilled', number, engineId: 'p0', ms: 1, prompt: null });
    expect(lacks()).toEqual([0, 100]);
    policy.observe?.(ended(number));
    expect(lacks()).toEqual([0, 0]);
  });

  test('goes to the D that holds the conversation with session-affinity-scorer', () => {
    const policy = llmD({ decode: { 'session-affinity-scorer': 1 } });
    const d = [view('d0'), view('d1'), view('d2')];
    const held = { engineId: 'd1', tokens: 50 };
    expect(scoresOf(policy, [view('p0')], d, { held })).toMatchObject({ d0: 0, d1: 1, d2: 0 });
  });

  test('is drawn by score with weighted-random-picker, and takes the highest score otherwise', () => {
    const cachedTokens = (engineId: string) => (engineId === 'd0' ? 16 : 48);
    const decode = { 'precise-prefix-cache-scorer': 1 };
    const by = (picker: string, draw: number) =>
      chosen(policyOf('llm-d', { picker, decode }, [draw]), [view('p0')], [view('d0'), view('d1')], {
        cachedTokens,
      });
    const drawn = [0.2, 0.3].map((draw) => by('weighted-random-picker', draw));
    expect(drawn).toEqual(['p0 d0', 'p0 d1']);
    expect([0.2, 0.3].map((draw) => by('max-score-picker', draw))).toEqual(['p0 d1', 'p0 d1']);
  });

  test('goes to P first depending on the cache of the D that was chosen', () => {
    const policy = llmD({ decode: { 'queue-scorer': 1 } });
    const cachedTokens = (engineId: string) => (engineId === 'd0' ? 96 : 0);
    const d = [told('d0', { waiting: 3 }), told('d1')];
    expect(chosen(policy, [view('p0')], d, { cachedTokens })).toBe('p0 d1');
  });

  test('goes to the P whose last cold prompt is the oldest with no-hit-lru-scorer', () => {
    const policy = llmD({ prefill: { 'no-hit-lru-scorer': 1 }, decode: { 'session-affinity-scorer': 1 } });
    const p = [view('p0'), view('p1'), view('p2')];
    const at = (nowMs: number) => ({ promptTokenIds: tokens(64, 1000 * nowMs), nowMs });
    for (const [nowMs, engineId] of [
      [1, 'p1'],
      [2, 'p0'],
    ] as const) {
      policy.observe?.(ended(sent(policy, engineId, 'd0', tokens(64, 1000 * nowMs), { nowMs })));
    }
    expect(scoresOf(policy, p, [view('d0')], at(3))).toMatchObject({ p2: 1, p1: 0.5, p0: 0 });
    // A prompt that was sent before is warm, and then all engines score the same.
    expect(scoresOf(policy, p, [view('d0')], at(1))).toMatchObject({ p2: 0.5, p1: 0.5, p0: 0.5 });
  });
});

test('weightedRandom() draws by weight, and evenly if all weights are 0', () => {
  const pick = (weights: number[], draw: number) =>
    weightedRandom(
      weights.map((weight, i) => ({ weight, i })),
      ({ weight }) => weight,
      () => draw,
    ).i;
  expect([0, 0.249, 0.25, 0.999].map((draw) => pick([1, 3], draw))).toEqual([0, 0, 1, 1]);
  expect([0, 0.5, 0.999].map((draw) => pick([0, 0], draw))).toEqual([0, 1, 1]);
  expect(pick([1, 0], 0.999999999999)).toBe(0);
});

test("parameters of llm-d may be llm-d's own configuration", () => {
  const configuration = {
    apiVersion: 'inference.networking.x-k8s.io/v1alpha1',
    kind: 'EndpointPickerConfig',
    plugins: [
      { type: 'prefix-based-pd-decider', parameters: { nonCachedTokens: 512 } },
      { type: 'queue-scorer', name: 'q' },
      { type: 'kv-cache-utilization-scorer' },
      { type: 'max-score-picker' },
      { type: 'decode-filter' },
    ],
    schedulingProfiles: [
      { name: 'prefill', plugins: [{ pluginRef: 'q' }] },
      {
        name: 'decode',
        plugins: [
          { pluginRef: 'decode-filter' },
          { pluginRef: 'q', weight: 3 },
          { pluginRef: 'kv-cache-utilization-scorer', weight: 2 },
          { pluginRef: 'max-score-picker' },
        ],
      },
    ],
  };
  const policy = llmD(configuration);
  expect(chosen(policy, [view('p0')], [view('d0')])).toBe('d0');
  expect(scoresOf(policy, [view('p0')], [told('d0', { freeBlocks: 50 })])).toEqual({ d0: 4 });
  const other = { ...configuration, plugins: [{ type: 'coffee-scorer' }] };
  expect(() => llmD(other)).toThrow('llm-d.plugins.0.type');
});

/** A configuration as in llm-d's examples: a prefix scorer, and the producer that supplies its data. */
const shipped = (...[producer, parameters]: [string, object?]) => ({
  kind: 'EndpointPickerConfig',
  plugins: [
    { type: 'token-producer', parameters: { modelName: 'm' } },
    { type: 'endpoint-notification-source' },
    { type: producer, parameters: { lruCapacityPerServer: 31250 } },
    { type: 'prefix-cache-scorer', ...(parameters && { parameters }) },
    { type: 'prefill-filter' },
    { type: 'decode-filter' },
    { type: 'max-score-picker' },
    { type: 'disagg-profile-handler', parameters: { deciders: { prefill: 'always-disagg-pd-decider' } } },
    { type: 'always-disagg-pd-decider' },
  ],
  schedulingProfiles: [
    { name: 'prefill', plugins: [{ pluginRef: 'prefix-cache-scorer', weight: 2 }] },
    { name: 'decode', plugins: [{ pluginRef: 'prefix-cache-scorer', weight: 2 }] },
  ],
  featureGates: ['dataLayer'],
  dataLayer: {
    sources: [{ pluginRef: 'endpoint-notification-source', extractors: [{ pluginRef: producer }] }],
  },
});

test.each([
  ['the prompts sent to each engine', shipped('approx-prefix-cache-producer'), 'prefix-cache-scorer'],
  [
    'the caches that engines report',
    shipped('precise-prefix-cache-producer', {
      prefixMatchInfoProducerName: 'precise-prefix-cache-producer',
    }),
    'precise-prefix-cache-scorer',
  ],
])('a configuration with producers is accepted unchanged, and its scorer uses %s', (_, given, scorer) => {
  expect(fromPickerConfig(given, 'llm-d')).toEqual({
    decider: 'always-disagg-pd-decider',
    picker: 'max-score-picker',
    prefill: { [scorer]: 2 },
    decode: { [scorer]: 2 },
  });
});

test('a scorer parameter that is fixed here is refused if it has another value', () => {
  const given = (threshold: number) => ({
    kind: 'EndpointPickerConfig',
    plugins: [{ type: 'load-aware-scorer', parameters: { threshold } }],
    schedulingProfiles: [],
  });
  expect(() => fromPickerConfig(given(10), 'llm-d')).toThrow('wanted 128, to which it is fixed here');
  expect(() => fromPickerConfig(given(128), 'llm-d')).not.toThrow();
});
