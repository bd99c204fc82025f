import { describe, expect, test } from 'vitest';
import { createApp } from '../../src/server/app.ts';
import type { PortService } from '../../src/server/service.ts';
import { appOptions } from './stub-app.ts';

const service = {
  kind: 'router',
  name: 'router',
  model: { names: ['nano', 'alias'], maxModelLen: 1024, vocabSize: 512, eosTokenIds: [0] },
  text: { mostCharacters: 4 },
  unhealthy: () => null,
} as unknown as PortService;

const app = (changed: Partial<PortService> = {}) => {
  const own = { ...service, ...changed } as PortService;
  return createApp(own, appOptions(own, { version: '1.2.3', created: 1000 }));
};

describe('every port', () => {
  test.each([
    ['GET', '/health'],
    ['GET', '/ping'],
    ['POST', '/ping'],
  ])('answers %s %s with an empty 200, or with 503 and the reason', async (method, path) => {
    const good = await app().request(path, { method });
    expect([good.status, await good.text()]).toEqual([200, '']);
    const bad = await app({ unhealthy: () => 'P is dead' }).request(path, { method });
    expect(bad.status).toBe(503);
    expect(bad.headers.get('Retry-After')).toBe('1');
    expect(await bad.json()).toEqual({
      error: { message: 'P is dead', type: 'ServiceUnavailableError', param: null, code: 503 },
    });
  });

  test('reports its version, and its model under each name in /v1/models', async () => {
    expect(await (await app().request('/version')).json()).toEqual({ version: '1.2.3' });
    const models = (await (await app().request('/v1/models')).json()) as { data: object[] };
    expect(models.data.map((model) => ({ ...model }))).toEqual(
      ['nano', 'alias'].map((id) => ({
        id,
        object: 'model',
        created: 1000,
        owned_by: 'kvferry',
        root: 'nano',
        parent: null,
        max_model_len: 1024,
      })),
    );
  });

  test('serves each model name at /v1/models/NAME, also with a slash in it', async () => {
    const named = { model: { ...service.model, names: ['nano', 'meta-llama/Llama-3.2-1B'] } };
    const asked = async (name: string) => (await app(named).request(`/v1/models/${name}`)).json();
    for (const id of named.model.names)
      expect(await asked(id)).toMatchObject({ id, object: 'model', root: 'nano' });
    expect(await asked('meta-llama%2FLlama-3.2-1B')).toMatchObject({ id: 'meta-llama/Llama-3.2-1B' });
    const error = { type: 'NotFoundError', param: 'model', code: 404 };
    expect(await asked('other')).toMatchObject({ error });
    const posted = await app(named).request('/v1/models/nano', { method: 'POST' });
    expect([posted.status, posted.headers.get('Allow')]).toEqual([405, 'GET, HEAD']);
  });

  test("answers an unknown path with 404 in OpenAI's error format", async () => {
    const response = await app().request('/v1/nothing');
    expect(response.status).toBe(404);
    expect(((await response.json()) as { error: { type: string } }).error.type).toBe('NotFoundError');
  });
});
