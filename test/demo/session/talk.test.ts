import { afterEach, expect, it, vi } from 'vitest';
import { keepConversation } from '../../../demo/src/session/conversation/kept-conversation.ts';
import { script, secondScript } from '../../../demo/src/session/conversation/suggestions.ts';
import { Talk } from '../../../demo/src/session/conversation/talk.ts';
import { defaultSettings, type Settings } from '../../../demo/src/session/settings.ts';
import type { Workbench } from '../../../demo/src/session/workbench.ts';

/** A bench whose engines answer with `tokens` tokens, and the order of its events. The question `fails` gets an error. */
function bench(tokens: number, conversations: number, fails = '', settings: Partial<Settings> = {}) {
  const told: string[] = [];
  const endConversation = async (id: string) => void told.push(`end of ${id}`);
  async function* generate(_: unknown, { question }: { question: string }) {
    if (question === fails) throw new Error('D is gone');
    for (let i = 1; i <= tokens; i++) {
      told.push(`${i} ${question}`);
      yield { text: 'so ', final: i === tokens ? { text: 'so '.repeat(tokens) } : null };
    }
  }
  const cluster = { info: { model: { maxModelLen: 100 } }, text: { tokenizer: { mostCharacters: 4 } } };
  const stand = {
    settings: { ...defaultSettings, conversations, ...settings },
    state: { suggestions: {}, playing: {} },
    engines: { running: { cluster, recorder: { generate, lastTurn: () => null, endConversation } } },
    exclusive: (_: string, run: (signal: AbortSignal) => Promise<void>) => run(new AbortController().signal),
    setSettings: () => {},
    emit: () => {},
    note: (_: string, message: string) => void told.push(message),
    nowMs: () => 0,
  };
  return { talk: new Talk(stand as unknown as Workbench), told };
}

/** Stubs sessionStorage with a conversation that was kept while keeping was on. */
function keptBefore(): Map<string, string> {
  const items = new Map<string, string>();
  vi.stubGlobal('sessionStorage', {
    setItem: (key: string, value: string) => items.set(key, value),
    removeItem: (key: string) => items.delete(key),
  });
  keepConversation(defaultSettings, { id: 'chat-1', messages: [], tokenIds: [1], turns: [] });
  expect(items.size).toBe(1);
  return items;
}
afterEach(() => vi.unstubAllGlobals());

it('a question that cannot fit into the context is refused before it is turned into tokens', async () => {
  const { talk, told } = bench(1, 1);
  await talk.ask('x'.repeat(396));
  expect(told).toEqual([`1 ${'x'.repeat(396)}`]);
  await talk.ask('x'.repeat(397));
  expect(told.slice(1)).toEqual([
    "The question has at least 100 tokens, and the model's context has 100: shorten the question.",
  ]);
});

it('a reset removes the kept conversation, even with keeping off', async () => {
  const kept = keptBefore();
  await bench(8, 1, '', { storeDir: null }).talk.forget();
  expect(kept.size).toBe(0);
});

it('a turn with keeping off removes the kept conversation, which would lack the turn', async () => {
  const kept = keptBefore();
  await bench(8, 1, '', { storeDir: null }).talk.ask('why?');
  expect(kept.size).toBe(0);
});

it("a lesson does not remove the user's kept conversation", async () => {
  const kept = keptBefore();
  const { talk } = bench(8, 1, '', { storeDir: null, lesson: 3 });
  await talk.ask('why?');
  await talk.forget();
  expect(kept.size).toBe(1);
});

it('the second user asks while the first is being answered', async () => {
  const { talk, told } = bench(8, 2);
  expect(await talk.step()).toBe(true);
  const begun = told.indexOf(`1 ${secondScript[0]}`);
  expect(begun).toBeGreaterThan(told.indexOf(`3 ${script[0]}`));
  expect(begun).toBeLessThan(told.indexOf(`8 ${script[0]}`));
});

it('the second user asks after the first answer if it is short', async () => {
  const { talk, told } = bench(2, 2);
  expect(await talk.step()).toBe(true);
  expect(told).toEqual([`1 ${script[0]}`, `2 ${script[0]}`, `1 ${secondScript[0]}`, `2 ${secondScript[0]}`]);
});

it('an error of the second user is reported after the first answer is complete', async () => {
  const { talk, told } = bench(8, 2, secondScript[0]);
  await expect(talk.step()).rejects.toThrow('D is gone');
  expect(told.at(-1)).toBe(`8 ${script[0]}`);
});

it('the conversation that prepares a race is ended even if one of its turns fails', async () => {
  const { talk, told } = bench(8, 1, script[1]);
  await expect(talk.history(new AbortController().signal)).rejects.toThrow('D is gone');
  expect(told.at(-1)).toBe('end of race-story');
});

it('with one user nobody else asks', async () => {
  const { talk, told } = bench(8, 1);
  expect(await talk.step()).toBe(true);
  expect(told).toHaveLength(8);
});
