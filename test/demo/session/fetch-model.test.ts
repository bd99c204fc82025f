/** Fetching a model by its address: missing files and server failures. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ModelError } from '../../../src/errors.ts';
import { fetchModel } from '../../../src/platform/browser/fetch-model.ts';

afterEach(() => {
  vi.unstubAllGlobals();
});

const NAMES = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'];

/** Fetches a model from a server that has the files above, with other answers for the names in `others`. */
const served = (others: Record<string, () => Response>, known: readonly string[] | null = null) => {
  vi.stubGlobal('fetch', async (url: string) => {
    const name = url.split('/').at(-1)!;
    return others[name]?.() ?? new Response('{}', { status: NAMES.includes(name) ? 200 : 404 });
  });
  return fetchModel('http://host/model', () => {}, known);
};
const status = (code: number) => () => new Response('', { status: code });

describe('an optional file of a model', () => {
  test.each([404, 410, 403, 401])('counts as absent on HTTP %i', async (code) => {
    const files = await served({ 'generation_config.json': status(code) });
    expect([...files.keys()].sort()).toEqual([...NAMES].sort());
  });

  test('counts as absent when the server answers with an HTML page', async () => {
    const page = () => new Response('<html>', { headers: { 'content-type': 'text/html' } });
    expect((await served({ 'chat_template.jinja': page })).has('chat_template.jinja')).toBe(false);
  });

  test.each(['generation_config.json', 'chat_template.jinja', 'model.safetensors.index.json'])(
    'does not count as absent when the server fails: %s',
    async (name) => {
      for (const code of [408, 429, 500, 503])
        await expect(served({ [name]: status(code) })).rejects.toThrow(
          new ModelError(`http://host/model/${name} could not be fetched (HTTP ${code}): try again later`),
        );
    },
  );

  test('is required if it is listed as present, and not requested if it is not listed', async () => {
    const name = 'generation_config.json';
    await expect(served({}, [...NAMES, name])).rejects.toThrow(`${name} does not exist (HTTP 404)`);
    const files = await served({ [name]: status(500) }, NAMES);
    expect(files.size).toBe(NAMES.length);
  });
});

test('a file whose download breaks off is named in the error', async () => {
  const broken = () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new Uint8Array(3));
        },
        pull(controller) {
          controller.error(new TypeError('network error'));
        },
      }),
    );
  await expect(served({ 'model.safetensors': broken })).rejects.toThrow(
    /^http:\/\/host\/model\/model.safetensors broke off after \d bytes/,
  );
});
