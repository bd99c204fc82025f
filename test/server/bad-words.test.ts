/** allowed_token_ids and bad_words, from the request body to the engines' sampling parameters. */
import { expect, test } from 'vitest';
import { badWordsTokenIds } from '../../src/server/generation/bad-words.ts';
import { StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

const { signal } = new AbortController();

test('bad words are encoded as given, and also after a space if that is another token', async () => {
  const ids: Record<string, number[]> = {
    cat: [7],
    ' cat': [8],
    two: [1, 2],
    ' two': [3, 1, 2],
    a: [5],
    ' a': [5],
  };
  const encode = async (text: string) => ids[text] ?? [];
  expect(await badWordsTokenIds(['cat', ' cat', 'two', 'a', 'cat'], { encode }, signal)).toEqual([
    ...[[7], [8]],
    ...[[7], [8]],
    [1, 2],
    [5],
  ]);
  await expect(badWordsTokenIds([' '], { encode }, signal)).rejects.toMatchObject({
    status: 400,
    param: 'bad_words',
  });
});

test('chats, completions and token requests pass bad_words and allowed_token_ids as token ids', async () => {
  for (const kind of ['router', 'engine'] as const) {
    const stub = new StubService(kind);
    const app = stubApp(stub);
    const asked = { bad_words: ['no'], allowed_token_ids: [1, 2, 1] };
    await app.request(CHAT, post({ ...hello, ...asked }));
    await app.request('/v1/completions', post({ prompt: 'a', max_tokens: 1, ...asked }));
    const sampling_params = { max_tokens: 1, ...asked };
    await app.request('/inference/v1/generate', post({ token_ids: [1], sampling_params }));
    expect(stub.requests).toHaveLength(3);
    for (const { sampling } of stub.requests)
      expect(sampling).toMatchObject({ badWordsTokenIds: [stub.ids('no')], allowedTokenIds: [1, 2] });
  }
});

test.each([
  [{ allowed_token_ids: [] }, 'allowed_token_ids', /at least one/],
  [{ allowed_token_ids: [512] }, 'allowed_token_ids', /vocabulary size, 512/],
  [{ allowed_token_ids: [-1] }, 'allowed_token_ids.0', /token ids/],
  [{ allowed_token_ids: 'a' }, 'allowed_token_ids', /list of token ids/],
  [{ allowed_token_ids: [97], bad_words: ['a'] }, 'allowed_token_ids', /allow another/],
  [{ allowed_token_ids: [0], min_tokens: 1 }, 'allowed_token_ids', /allow another/],
  [{ bad_words: [''] }, 'bad_words.0', /not empty/],
  [{ bad_words: 'a' }, 'bad_words', /list of strings/],
  [{ bad_words: Array(129).fill('a') }, 'bad_words', /at most 128/],
  [{ bad_words: ['a'.repeat(129)] }, 'bad_words.0', /at most 128/],
])('%j is refused with 400', async (fields, param, message) => {
  const stub = new StubService();
  const response = await stubApp(stub).request(CHAT, post({ ...hello, ...fields }));
  expect(response.status).toBe(400);
  const { error } = (await response.json()) as { error: { param: string; message: string } };
  expect([error.param, error.message]).toEqual([param, expect.stringMatching(message)]);
});
