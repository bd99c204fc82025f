import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { routingProblem } from '../../../src/config/routing.ts';
import { importModule } from '../../../src/platform/node/import-module.ts';
import { addOwnPolicies } from '../../../src/router/policies/add-own.ts';
import { type OwnPolicy, ownPolicies } from '../../../src/router/policies/own.ts';
import { makePolicy, reportsNeeded } from '../../../src/router/policies/registry.ts';
import { DEPS, policyOf, routeRequest, view } from '../policies.ts';

const FIRST: OwnPolicy = {
  route: (_, { prefill, decode }) => ({ prefill: prefill[0]!, decode: decode[0]! }),
};
const ENGINES = { prefill: [view('p0'), view('p1')], decode: [view('d0'), view('d1')] };

const fails = () => {
  throw new Error('no');
};

/** Adds a policy and returns its name. */
async function added(policy: object, name = 'mine'): Promise<string> {
  const module = { default: { name, create: () => policy } };
  await addOwnPolicies('mine.mjs', { importModule: async () => module });
  return name;
}

/** Routes with a policy. `whole`: everything that the policy is. */
const routed = async (whole: object) => policyOf(await added(whole)).route(routeRequest(), ENGINES);

test('the example of the documentation prefers the P with most of the prompt, within its parameter', async () => {
  const page = fileURLToPath(new URL('../../../docs/fleet.md', import.meta.url));
  const [, code] = /```js\n(\/\/ near-cache\.mjs\n[\s\S]+?)```/.exec(await readFile(page, 'utf8'))!;
  const folder = await mkdtemp(path.join(tmpdir(), 'kvferry-own-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'near-cache.mjs');
  await writeFile(file, code!);
  expect(routingProblem('near-cache')).toMatch(/^policies .* there is no 'near-cache'/);
  expect(await addOwnPolicies(file, { importModule })).toEqual(['near-cache']);
  expect(routingProblem('near-cache:2,least-request:1')).toBeNull();
  expect(reportsNeeded({ name: 'near-cache' })).toEqual({ load: false, cache: true });
  const request = routeRequest({
    cachedTokens: (id) => (id === 'p1' ? 64 : 0),
    held: { engineId: 'd1', tokens: 80 },
  });
  expect(policyOf('near-cache').route(request, ENGINES)).toEqual({
    prefill: ENGINES.prefill[1],
    decode: ENGINES.decode[1],
    why: '64 tokens cached',
  });
  const busy = { ...ENGINES, prefill: [view('p0', { inFlight: 1 }), view('p1', { inFlight: 2 })] };
  expect(policyOf('near-cache').route(request, busy).prefill.engineId).toBe('p1');
  expect(policyOf('near-cache', { most: 2 }).route(request, busy).prefill.engineId).toBe('p0');
  expect(() => policyOf('near-cache', { most: 'two' })).toThrow(
    '--routing-config: near-cache.most is "two": wanted a number',
  );
});

test('a policy without a reason is its own reason, and what else it returns is kept', async () => {
  expect(await routed(FIRST)).toEqual({
    prefill: ENGINES.prefill[0],
    decode: ENGINES.decode[0],
    why: 'mine',
  });
  const more = { alone: true, predictedTtftMs: 5, scores: [] };
  const policy = { route: () => ({ prefill: ENGINES.prefill[1], decode: ENGINES.decode[1], ...more }) };
  expect(await routed(policy)).toEqual({ ...policy.route(), why: 'mine' });
});

test('it learns from what happens to turns, and of engines that end', async () => {
  const told: unknown[] = [];
  const tell = (what: unknown) => void told.push(what);
  const policy = policyOf(await added({ ...FIRST, observe: tell, forget: tell }));
  const ended = { kind: 'ended', number: 0, outputTokens: 3 } as const;
  policy.observe?.(ended);
  policy.forget?.('p0');
  expect(told).toEqual([ended, 'p0']);
});

test.each<[string, unknown, string]>([
  ['no default export', {}, 'mine.mjs has no default export: wanted a routing policy { name, create }'],
  ['an empty list', { default: [] }, 'mine.mjs exports an empty list: wanted at least one'],
  ['something else', { default: 5 }, 'mine.mjs: default is 5: wanted an object'],
  ['no name', { default: { create() {} } }, 'mine.mjs: default.name is not given: wanted lower-case letters'],
  [
    'a bad name',
    { default: { name: 'a,b', create() {} } },
    `default.name is "a,b": wanted lower-case letters`,
  ],
  [
    'a name of another',
    { default: { name: 'llm-d', create() {} } },
    "default.name is 'llm-d', which is the name",
  ],
  ['no create()', { default: { name: 'a' } }, 'mine.mjs: default.create is not given: wanted a function'],
  ['a misspelt key', { default: [{ name: 'a', create() {}, needz: [] }] }, 'default[0] has no parameter'],
  [
    'parameters that are no values',
    { default: { name: 'a', create() {}, parameters: { x: [] } } },
    'mine.mjs: default.parameters.x is []: wanted a number or a text or true or false',
  ],
])('a module with %s is refused', (_, module, message) => {
  expect(() => ownPolicies(module, 'mine.mjs')).toThrow(message);
});

test.each<[string, () => unknown, string]>([
  ['throws', fails, "create() of 'mine' threw Error: no"],
  ['returns none', () => ({ rout() {} }), "create() of 'mine' returned no policy: wanted { route(request"],
])('a create() that %s is refused', async (_, create, message) => {
  const module = { default: { name: 'mine', create } };
  await addOwnPolicies('mine.mjs', { importModule: async () => module });
  expect(() => makePolicy({ name: 'mine', parameters: {} }, DEPS)).toThrow(`mine.mjs: ${message}`);
});

const [P0, D0] = [ENGINES.prefill[0], ENGINES.decode[0]];
test.each<[string, () => unknown, string]>([
  ['throws', fails, 'route() threw Error: no'],
  ['returns nothing', () => undefined, 'route() is not given: wanted an object'],
  ['names no D', () => ({ prefill: P0 }), 'route().decode is not given: wanted one of the candidates'],
  [
    'names a D to prefill',
    () => ({ prefill: D0, decode: D0 }),
    'route().prefill is d0, which is no candidate: wanted one of p0, p1',
  ],
  ['misspells', () => ({ prefill: P0, decode: D0, Alone: true }), "route() has no parameter 'Alone'"],
  ['waits', async () => ({ prefill: P0, decode: D0 }), 'route() returned a promise: it must decide at once'],
])('a turn whose policy %s fails, and the error names the policy', async (_, route, message) => {
  const policy = policyOf(await added({ route }));
  expect(() => policy.route(routeRequest(), ENGINES)).toThrow(
    expect.objectContaining({
      code: 'policy',
      message: expect.stringContaining(`the routing policy mine of mine.mjs failed: ${message}`),
    }),
  );
});

test('a policy that could not learn serves no more turns', async () => {
  const policy = policyOf(await added({ ...FIRST, observe: fails }));
  policy.route(routeRequest(), ENGINES);
  policy.observe?.({ kind: 'ended', number: 0, outputTokens: 3 });
  expect(() => policy.route(routeRequest(), ENGINES)).toThrow('mine.mjs failed: observe() threw Error: no');
});
