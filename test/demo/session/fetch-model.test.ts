/** A model by its address: what a server lacks, and what it fails on. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ModelError } from '../../../src/errors.ts';
import { fetchModel } from '../../../src/platform/browser/fetch-model.ts';

afterEach(() => {
  vi.unstubAllGlobals();
});

const NAMES = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'];

/** A server that has the files above, and answers otherwise as it is told. */
const served = (others: Record<string, () => Response>, known: readonly string[] | null = null) => {
  vi.stubGlobal('fetch', async (url: string) => {
    const name = url.split('/').at(-1)!;
    return others[name]?.() ?? new Response('{}', { status: NAMES.includes(name) ? 200 : 404 });
  });
  return fetchModel('http://host/model', () => {}, known);
};
const status = (code: number) => () => new Response('', { status: code });

describe('a file that a model need not have', () => {
  test.each([404, 410, 403, 401])('is not there by HTTP %i', async (code) => {
    const files = await served({ 'generation_config.json': status(code) });
    expect([...files.keys()].sort()).toEqual([...NAMES].sort());
  });

  test('is not there where a page comes instead', async () => {
    const page = () => new Response('<html>', { headers: { 'content-type': 'text/html' } });
    expect((await served({ 'chat_template.jinja': page })).has('chat_template.jinja')).toBe(false);
  });

  test.each(['generation_config.json', 'chat_template.jinja', 'model.safetensors.index.json'])(
    '%s that the server fails on is not taken for absent',
    async (name) => {
      for (const code of [408, 429, 500, 503])
        await expect(served({ [name]: status(code) })).rejects.toThrow(
          new ModelError(`http://host/model/${name} could not be fetched (HTTP ${code}): try again later`),
        );
    },
  );

  test('is wanted where it is known to be there, and not asked for where it is known not to be', async () => {
    const name = 'generation_config.json';
    await expect(served({}, [...NAMES, name])).rejects.toThrow(`${name} does not exist (HTTP 404)`);
    const files = await served({ [name]: status(500) }, NAMES);
    expect(files.size).toBe(NAMES.length);
  });
});

test('a file that breaks off is named', async () => {
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
