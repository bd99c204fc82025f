/** Answer options of requests on real engines: the router's answers are those of a single engine. */
import { expect, it } from 'vitest';
import { post, withServer } from './server-fixture.ts';

interface Answer {
  choices: { index: number; text: string; token_ids: number[]; prompt_token_ids: number[] }[];
  usage: { prompt_tokens: number; completion_tokens: number };
}

const COMPLETION = '/v1/completions';
const ask = { max_tokens: 16, temperature: 1, seed: 9, ignore_eos: true, return_token_ids: true };

async function answer(url: string, body: object): Promise<Answer> {
  const response = await post(`${url}${COMPLETION}`, { ...ask, ...body });
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

it('allowed_token_ids and bad_words have the same effect through P and D as on one engine', async () => {
  await withServer({}, {}, async ({ urls, errors }) => {
    const prompt = 'Once upon a time there was a fox';
    const [free] = (await answer(urls.router, { prompt })).choices;
    const allowed_token_ids = Array.from({ length: 200 }, (_, i) => 20 + 2 * i);
    const limits = [
      { allowed_token_ids },
      { allowed_token_ids, temperature: 0 },
      { bad_words: [[...free!.text][0]!, [...free!.text].slice(3, 5).join('')] },
    ];
    for (const limit of limits) {
      const alone = (await answer(urls.decode, { prompt, ...limit, cache_salt: 'alone' })).choices[0]!;
      const both = (await answer(urls.router, { prompt, ...limit })).choices[0]!;
      expect(both.token_ids).toEqual(alone.token_ids);
      expect(both.token_ids).not.toEqual(free!.token_ids);
      if ('allowed_token_ids' in limit)
        expect(both.token_ids.every((id) => allowed_token_ids.includes(id))).toBe(true);
      else for (const word of limit.bad_words!) expect(both.text).not.toContain(word);
    }
    expect(errors).toEqual([]);
  });
});

it('special tokens are always in token_ids, but in the text only with skip_special_tokens false', async () => {
  await withServer({}, {}, async ({ urls, cluster, errors }) => {
    const special = cluster.text.architecture.eosTokenIds[0]!;
    const [letter] = cluster.encode('x');
    const asked = { prompt: 'Once', allowed_token_ids: [special, letter] };
    for (const url of [urls.router, urls.decode]) {
      const [left] = (await answer(url, asked)).choices;
      const [written] = (await answer(url, { ...asked, skip_special_tokens: false })).choices;
      expect(left!.token_ids).toContain(special);
      expect(written!.token_ids).toEqual(left!.token_ids);
      expect(written!.text).toBe(cluster.decode(left!.token_ids));
      expect(left!.text).toBe('x'.repeat(left!.token_ids.filter((id) => id === letter).length));
    }
    expect(errors).toEqual([]);
  });
});

it('several prompts with n > 1 get the answers of separate requests, and leave nothing running', async () => {
  await withServer({}, {}, async ({ urls, cluster, errors }) => {
    const prompts = ['Once upon a time', 'In the beginning'];
    for (const url of [urls.router, urls.prefill]) {
      const all = await answer(url, { prompt: prompts, n: 2 });
      expect(all.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
      for (const { index, token_ids } of all.choices) {
        const [alone] = (await answer(url, { prompt: prompts[index >> 1], seed: 9 + (index & 1) })).choices;
        expect(token_ids).toEqual(alone!.token_ids);
      }
      expect(all.choices[0]!.token_ids).not.toEqual(all.choices[1]!.token_ids);
      const promptTokens = [0, 2].reduce((sum, i) => sum + all.choices[i]!.prompt_token_ids.length, 0);
      expect(all.usage).toMatchObject({ prompt_tokens: promptTokens, completion_tokens: 64 });
    }
    expect(errors).toEqual([]);
    await expect.poll(async () => (await cluster.stats()).map(({ running }) => running)).toEqual([0, 0]);
  });
});

it('continue_final_message continues the last message where it ended', async () => {
  await withServer({}, {}, async ({ urls, errors }) => {
    const url = `${urls.router}/v1/chat/completions`;
    const chat = async (body: object) => {
      const response = await post(url, { ...ask, ...body });
      expect(response.status).toBe(200);
      return (await response.json()) as {
        prompt_token_ids: number[];
        choices: { message: { content: string }; token_ids: number[] }[];
      };
    };
    const question = { role: 'user', content: 'Tell me of a fox.' };
    const whole = await chat({ messages: [question] });
    const half = [...whole.choices[0]!.message.content].slice(0, 6).join('');
    const messages = [question, { role: 'assistant', content: half }];
    const rest = await chat({ messages, add_generation_prompt: false, continue_final_message: true });
    expect(rest.prompt_token_ids).toEqual([
      ...whole.prompt_token_ids,
      ...whole.choices[0]!.token_ids.slice(0, 6),
    ]);
    // In the next turn's history the whole answer is one message, and its tokens are found again.
    const said = half + rest.choices[0]!.message.content;
    const next = [question, { role: 'assistant', content: said }, { role: 'user', content: 'And?' }];
    const second = await chat({ messages: next });
    const before = [...rest.prompt_token_ids, ...rest.choices[0]!.token_ids];
    expect(second.prompt_token_ids.slice(0, before.length)).toEqual(before);
    expect(errors).toEqual([]);
  });
});
