/** Operator paths, who counts as the operator, and which ports need keys. */
import { describe, expect, test } from 'vitest';
import { type AccessOptions, checkAccess } from '../../src/server/http/access.ts';
import { createLog } from '../../src/server/http/log.ts';
import type { Observability } from '../../src/server/observability.ts';
import {
  adminApp,
  isOperator,
  mountOnClientPort,
  type OperatorRule,
} from '../../src/server/operator/operator.ts';
import { asService, StubService } from './stub.ts';
import { CHAT, hello, noObserver, post, stubApp } from './stub-app.ts';

/** Answers /metrics with `all` to the operator and `plain` to others. */
const observability: Observability = {
  mountMetrics: (app, may) => void app.get('/metrics', (c) => c.text(may(c) ? 'all' : 'plain')),
  mountDetails: (app) => void app.post('/kv/query', (c) => c.text('queried')),
  observer: noObserver,
  answered: () => {},
  close: () => {},
};

interface Keys {
  apiKey?: string | null;
  adminKey?: string | null;
}

/** A client port, assembled as in serve.ts. */
function clientPort({ apiKey = null, adminKey = null }: Keys, local = true, operatorToo = false) {
  const stub = new StubService('engine');
  const rule: OperatorRule = { adminKey, local };
  const app = stubApp(stub, {
    apiKey,
    adminKey,
    mount: (mounted) => {
      observability.mountMetrics(mounted, isOperator(rule));
      if (operatorToo) mountOnClientPort(mounted, { service: asService(stub), observability }, rule);
    },
  });
  return { stub, app };
}

type App = ReturnType<typeof clientPort>['app'];

const bearer = (key: string | null): Record<string, string> =>
  key === null ? {} : { Authorization: `Bearer ${key}` };

async function statuses(app: App, path: string, keys: readonly (string | null)[]): Promise<number[]> {
  const answers: number[] = [];
  for (const key of keys) answers.push((await app.request(path, post({}, bearer(key)))).status);
  return answers;
}

const OPERATORS = ['/kv/query', '/reset_prefix_cache'];

describe('a client port', () => {
  test('has no operator paths by default, with either key', async () => {
    const { app } = clientPort({ apiKey: 'c', adminKey: 'a' });
    for (const path of OPERATORS) expect(await statuses(app, path, ['c', 'a'])).toEqual([404, 404]);
  });

  test('has operator paths if enabled: for the admin key, or for this machine if there is none', async () => {
    const keyed = clientPort({ apiKey: 'c', adminKey: 'a' }, true, true).app;
    for (const path of OPERATORS)
      expect(await statuses(keyed, path, [null, 'c', 'a'])).toEqual([401, 401, 200]);
    const { app } = clientPort({}, true, true);
    for (const path of OPERATORS) expect(await statuses(app, path, [null])).toEqual([200]);
    const reached = clientPort({}, false, true).app;
    for (const path of OPERATORS) expect(await statuses(reached, path, [null, 'a'])).toEqual([401, 401]);
  });

  test('serves clients with the API key or the admin key, and no others', async () => {
    const { app } = clientPort({ apiKey: 'c', adminKey: 'a' });
    const status = async (key: string | null) => (await app.request(CHAT, post(hello, bearer(key)))).status;
    expect(await Promise.all(['c', 'a', 'ca', '', null].map(status))).toEqual([200, 200, 401, 401, 401]);
  });

  test.each<[Keys, boolean, string | null, string]>([
    [{}, true, null, 'all'],
    [{ apiKey: 'c' }, true, null, 'all'],
    [{ apiKey: 'c' }, false, null, 'plain'],
    [{ apiKey: 'c' }, false, 'c', 'plain'],
    [{ apiKey: 'c', adminKey: 'a' }, true, null, 'plain'],
    [{ apiKey: 'c', adminKey: 'a' }, true, 'c', 'plain'],
    [{ apiKey: 'c', adminKey: 'a' }, false, 'a', 'all'],
  ])('with keys %j, loopback %j, asked with %j gives %s metrics', async (keys, local, key, expected) => {
    const response = await clientPort(keys, local).app.request('/metrics', { headers: bearer(key) });
    expect([response.status, await response.text()]).toEqual([200, expected]);
  });
});

describe('the admin port', () => {
  const log = createLog('text', () => {});
  const portOf = (adminKey: string | null, stub = new StubService('engine')) =>
    adminApp(
      [new StubService('router'), stub].map((each) => ({ service: asService(each), observability })),
      { adminKey, version: '1', log },
    );

  test("serves the operator paths of each port under the port's name", async () => {
    const stub = new StubService('engine');
    const app = portOf(null, stub);
    expect(await (await app.request('/router/kv/query', post({}))).text()).toBe('queried');
    expect(await (await app.request('/decode-0/metrics')).text()).toBe('all');
    expect((await app.request('/decode-0/reset_prefix_cache', post({}))).status).toBe(200);
    stub.resets = false;
    expect((await app.request('/decode-0/reset_prefix_cache', post({}))).status).toBe(409);
    expect((await app.request('/router/reset_prefix_cache', post({}))).status).toBe(404);
    expect((await app.request('/decode-0/reset_prefix_cache')).status).toBe(405);
    expect(await (await app.request('/metrics')).text()).toContain('wanted a path such as /router/metrics');
    expect(await (await app.request('/nothing')).text()).toContain('docs/serving.md');
    expect((await app.request('/health')).status).toBe(200);
  });

  test('requires the admin key if there is one', async () => {
    const app = portOf('a');
    for (const path of ['/router/kv/query', '/decode-0/reset_prefix_cache']) {
      expect(await statuses(app, path, [null, 'b', 'a'])).toEqual([401, 401, 200]);
    }
    const metrics = async (key: string | null) =>
      (await app.request('/decode-0/metrics', { headers: bearer(key) })).status;
    expect([await metrics(null), await metrics('a')]).toEqual([401, 200]);
    const { error } = (await (await app.request('/router/kv/query', post({}))).json()) as {
      error: { message: string };
    };
    expect(error.message).toContain('--admin-key');
  });
});

describe('checkAccess()', () => {
  const none: AccessOptions = {
    ...{ host: '127.0.0.1', adminHost: '127.0.0.1', apiKey: null, adminKey: null },
    adminOnClientPorts: false,
  };

  test.each<[Partial<AccessOptions>, boolean]>([
    [{}, true],
    [{ host: 'localhost', adminHost: '::1' }, true],
    [{ host: '127.8.9.1', adminOnClientPorts: true }, true],
    [{ host: '0.0.0.0', apiKey: 'c' }, false],
    [{ host: '::', apiKey: 'c', adminKey: 'a', adminHost: '0.0.0.0', adminOnClientPorts: true }, false],
  ])('accepts %j', async (options, local) => {
    expect(await checkAccess({ ...none, ...options })).toBe(local);
  });

  test.each<[Partial<AccessOptions>, RegExp]>([
    [
      { host: '0.0.0.0' },
      /--host 0\.0\.0\.0 is reachable from other machines.*--api-key \(or KVFERRY_API_KEY\)/,
    ],
    [{ host: '::', adminKey: 'a' }, /--api-key/],
    [{ host: '10.1.2.3' }, /--api-key/],
    [{ adminHost: '0.0.0.0' }, /--admin-host 0\.0\.0\.0 .*--admin-key \(or KVFERRY_ADMIN_KEY\)/],
    [{ adminHost: '::ffff:10.0.0.1', apiKey: 'c' }, /--admin-key/],
    [{ host: '0.0.0.0', apiKey: 'c', adminOnClientPorts: true }, /--host 0\.0\.0\.0 .*--admin-key/],
    [{ apiKey: 'same', adminKey: 'same' }, /are the same/],
    [{ apiKey: 'hush hush' }, /--api-key has characters that an HTTP header cannot carry/],
    [{ adminKey: 'hush日' }, /--admin-key has characters/],
    [{ host: '[::1]' }, /^--host is \[::1\]: wanted an address without brackets; give ::1$/],
    [{ adminHost: '[::]', adminKey: 'a' }, /^--admin-host is \[::\]: .*; give ::$/],
  ])('refuses %j and shows no key', async (options, message) => {
    const error = await checkAccess({ ...none, ...options }).catch((refusal: Error) => refusal);
    expect(error).toMatchObject({ code: 'config', message: expect.stringMatching(message) });
    expect((error as Error).message).not.toContain('hush');
  });
});
