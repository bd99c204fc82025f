import { describe, expect, test } from 'vitest';
import { createApp } from '../../src/server/app.ts';
import type { PortService } from '../../src/server/service.ts';

const service = {
  kind: 'router',
  name: 'router',
  model: { names: ['nano', 'alias'], maxModelLen: 1024, vocabSize: 512, eosTokenIds: [0] },
  text: { mostCharacters: 4 },
  unhealthy: () => null,
} as unknown as PortService;

const app = (changed: Partial<PortService> = {}) =>
  createApp({ ...service, ...changed } as PortService, { version: '1.2.3', created: 1000 });

describe('what every port tells of itself', () => {
  test('/health is 200 and empty, or 503 with the reason', async () => {
    const good = await app().request('/health');
    expect([good.status, await good.text()]).toEqual([200, '']);
    const bad = await app({ unhealthy: () => 'P is dead' }).request('/health');
    expect(bad.status).toBe(503);
    expect(bad.headers.get('Retry-After')).toBe('1');
    expect(await bad.json()).toEqual({
      error: { message: 'P is dead', type: 'ServiceUnavailableError', param: null, code: 503 },
    });
  });

  test('/version and /v1/models', async () => {
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

  test("an unknown path is a 404 in OpenAI's shape", async () => {
    const response = await app().request('/v1/nothing');
    expect(response.status).toBe(404);
    expect(((await response.json()) as { error: { type: string } }).error.type).toBe('NotFoundError');
  });
});
