import { expect, it } from 'vitest';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import { script, secondScript } from '../../../demo/src/session/suggestions.ts';
import { Talk } from '../../../demo/src/session/talk.ts';
import type { Workbench } from '../../../demo/src/session/workbench.ts';

/** A bench whose engines answer with so many tokens, and what was told in which order. `fails` gets no answer. */
function bench(tokens: number, conversations: number, fails = '') {
  const told: string[] = [];
  async function* generate(_: unknown, { question }: { question: string }) {
    if (question === fails) throw new Error('D is gone');
    for (let i = 1; i <= tokens; i++) {
      told.push(`${i} ${question}`);
      yield { text: 'so ', final: i === tokens ? { text: 'so '.repeat(tokens) } : null };
    }
  }
  const stand = {
    settings: { ...defaultSettings, conversations },
    state: { suggestions: {}, playing: {} },
    engines: { running: { recorder: { generate, lastTurn: () => null } } },
    exclusive: (_: string, run: (signal: AbortSignal) => Promise<void>) => run(new AbortController().signal),
    setSettings: () => {},
  };
  return { talk: new Talk(stand as unknown as Workbench), told };
}

it('the second user asks when the first is being answered', async () => {
  const { talk, told } = bench(8, 2);
  expect(await talk.step()).toBe(true);
  const begun = told.indexOf(`1 ${secondScript[0]}`);
  expect(begun).toBeGreaterThan(told.indexOf(`3 ${script[0]}`));
  expect(begun).toBeLessThan(told.indexOf(`8 ${script[0]}`));
});

it('the second user asks after an answer that is shorter than that', async () => {
  const { talk, told } = bench(2, 2);
  expect(await talk.step()).toBe(true);
  expect(told).toEqual([`1 ${script[0]}`, `2 ${script[0]}`, `1 ${secondScript[0]}`, `2 ${secondScript[0]}`]);
});

it('what goes wrong with the second user is told once the first was answered', async () => {
  const { talk, told } = bench(8, 2, secondScript[0]);
  await expect(talk.step()).rejects.toThrow('D is gone');
  expect(told.at(-1)).toBe(`8 ${script[0]}`);
});

it('nobody else asks where there is one user', async () => {
  const { talk, told } = bench(8, 1);
  expect(await talk.step()).toBe(true);
  expect(told).toHaveLength(8);
});
