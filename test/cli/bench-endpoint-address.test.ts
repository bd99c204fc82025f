import { afterEach, describe, expect, test } from 'vitest';
import { bench, benchIn, benchWorld, endServer, NO_KEY, serve, streamed } from './endpoint-server.ts';

afterEach(endServer);

describe('the address and the key of kvferry bench --endpoint', () => {
  test('says in one sentence that no server answers', async () => {
    const { url } = await serve(streamed);
    endServer();
    const { code, world } = await bench(url);
    expect(code).toBe(1);
    expect(world.err()).toMatch(/no server answers at http:\/\/127.0.0.1:\d+: .*ECONNREFUSED/);
  });

  test.each(['', '/', '/v1', '/v1/models', '/v1/completions', '/v1/chat/completions'])(
    'finds the server by its address with the path %s',
    async (path) => {
      const { url, asked } = await serve(streamed);
      const { code, report } = await bench(`${url}${path}`);
      expect(code).toBe(0);
      expect(report!.target).toMatchObject({ url });
      expect(asked[0]!.path).toBe('/v1/chat/completions');
    },
  );

  test.each([
    [null, /answered 401 \(no key was sent: set OPENAI_API_KEY/],
    ['wrong', /answered 401 \(the key in OPENAI_API_KEY was sent/],
  ])('says where a key is set if the server refuses the key %s', async (key, said) => {
    const { url } = await serve((_, response) => void response.writeHead(401).end(NO_KEY), true);
    const world = () => {
      const made = benchWorld();
      made.deps.environment = (name) => (name === 'OPENAI_API_KEY' ? key : null);
      return made;
    };
    const unnamed = await benchIn(world(), url);
    expect(unnamed.code).toBe(1);
    expect(unnamed.world.err()).toMatch(said);
    const named = await benchIn(world(), url, '--model', 'm');
    expect(named.code).not.toBe(0);
    expect(named.world.err() + named.world.out()).toMatch(key === null ? /no key was sent/ : /was sent/);
  });
});
