/** Additional checks of single lessons while they are walked through. */
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { ask, readState, until, untilReady } from './page.ts';

export interface Looks {
  /** Called before the first step. */
  begun?(page: Page): Promise<void>;
  /** Called for each step once it was seen and nothing runs. */
  seen: readonly ((page: Page) => Promise<void>)[];
}

const figures = (page: Page): Promise<string> => page.locator('.lesson-figures').innerText();
const told = (page: Page): Promise<string> => page.locator('.lesson-told').innerText();

/** Lesson 7: its link was accepted; a faster one is waited for less. */
const slowLink: Looks = {
  async begun(page) {
    expect((await readState(page)).settings).toMatchObject({ link: '40e3,5ms' });
    await page.evaluate("kvferry.actions.configure({ link: '400e3,5ms' })");
    await untilReady(page);
  },
  seen: [],
};

/** Lesson 8: the rewritten history appears in the chat, the blocks and the headline. */
function wrongKv(): Looks {
  const story = (page: Page) => page.getByRole('region', { name: 'What happens now' });
  return {
    seen: [
      async (page) => {
        const chat = page.getByRole('region', { name: 'Conversation' });
        await expect.poll(() => chat.locator('del').first().innerText()).toBe('mira');
        await expect.poll(() => chat.locator('ins').first().innerText()).toBe('luna');
        expect((await readState(page)).turns.at(-1)!.answer).toContain('mira');
        await expect.poll(() => story(page).innerText()).toMatch(/Wrong KV: \d+ pulled tokens/);
        // The inspector shows the prompt's words and those that the KV was computed from.
        const wrong = await page.evaluate<number>(
          "kvferry.state.drawn.prefill.value.blocks.value.find(({ origin, text }) => origin === 'pulled' && text?.includes('luna')).id",
        );
        await page.evaluate(`kvferry.actions.point({ at: 'block', role: 'prefill', id: ${wrong} })`);
        const inspector = page.locator('#block-inspector .inspector-text');
        await expect.poll(() => inspector.first().innerText()).toContain('luna');
        await expect.poll(() => inspector.last().innerText()).toMatch(/Its KV was computed from:.*mira/s);
        await page.evaluate('kvferry.actions.point(null)');
      },
      async (page) => {
        expect((await readState(page)).turns.at(-1)!.answer).toContain('luna');
        expect(await story(page).innerText()).not.toContain('Wrong KV');
      },
    ],
  };
}

/** Lesson 10: its figures agree with the page's blocks and turns. */
function windows(): Looks {
  /** The number of blocks that D holds, by KV cache group. */
  const held = (page: Page): Promise<number[]> =>
    page.evaluate(`(() => {
      const counts = [];
      for (const { state, group } of kvferry.state.drawn.decode.value.blocks.value)
        if (state === 'held') counts[group] = (counts[group] ?? 0) + 1;
      return counts;
    })()`);
  /** The same counts as the lesson states them. */
  const heldIn = (sentence: string): number[] =>
    [...sentence.matchAll(/(\d+) in group \d+/g)].map(([, count]) => Number(count));
  const result = async (page: Page) => (await readState(page)).turns.map((turn) => turn.result!);
  const moved = async (page: Page): Promise<number> =>
    (await result(page))
      .map(({ transfer }) => transfer.p_to_d.blocks + transfer.d_to_p.blocks)
      .reduce((sum, blocks) => sum + blocks, 0);
  const tokens = async (page: Page) => (await result(page)).map(({ output_token_ids }) => output_token_ids);

  /** Checks that P and D give the answers of one engine, and that blocks of every group are pulled. */
  async function sameInEveryMode(page: Page): Promise<void> {
    const LONG = 'Once there was a hare who lived beside a river and knew every stone of it by name. '.repeat(
      5,
    );
    const answers: Record<string, string[]> = {};
    for (const mode of ['bidirectional', 'monolithic']) {
      await page.evaluate(`kvferry.actions.begin({ mode: '${mode}', threshold: 1 })`);
      await untilReady(page);
      await ask(page, LONG);
      const { error, result } = await ask(page, 'And then?');
      expect(error).toBeNull();
      answers[mode] = (await readState(page)).turns.map(({ answer }) => answer);
      if (mode === 'monolithic') continue;
      expect(result!.pulled_tokens).toBeGreaterThan(2 * 128);
      // At most the window's blocks of five groups, and all blocks of the sixth.
      const whole = Math.ceil(result!.pulled_tokens / 16);
      expect(result!.transfer.d_to_p.blocks).toBeGreaterThan(whole + 5 * 7);
      expect(result!.transfer.d_to_p.blocks).toBeLessThanOrEqual(whole + 5 * 9);
      await until(page, "state.drawn.decode.value.blocks.value.some((block) => block.state === 'held')");
      expect((await held(page)).filter((count) => count > 0)).toHaveLength(6);
    }
    expect(answers.bidirectional).toEqual(answers.monolithic);
    expect(answers.monolithic!.every((answer) => answer.length > 0)).toBe(true);
  }

  let groups: number[];
  let windowed: { blocks: number; tokens: unknown };
  return {
    async begun(page) {
      await until(page, "state.machine.value.model.name === 'tiny-hybrid'");
      await untilReady(page);
      await page.evaluate("kvferry.actions.ask('Who is there?')");
      await page.locator('.lesson-figures').waitFor();
      // The conversation still fits into the window.
      expect(await figures(page)).toContain('Nothing was saved');
      await sameInEveryMode(page);
      await page.getByRole('button', { name: 'Start over' }).click();
      await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
      expect((await readState(page)).settings).toMatchObject({ model: 'tiny-hybrid', allFullKv: false });
    },
    seen: [
      async (page) => {
        groups = heldIn(await figures(page));
        expect(groups).toEqual(await held(page));
        expect(groups).toHaveLength(6);
        // The window of 128 tokens in blocks of 16, plus one block if the window starts within a block.
        expect(groups.filter((count) => count <= 128 / 16 + 1)).toHaveLength(5);
        expect(Math.max(...groups)).toBeGreaterThan(128 / 16 + 1);
        expect(await told(page)).toContain('Fewer blocks of the groups with a window');
      },
      async (page) => {
        const pulling = (await result(page)).at(-1)!;
        expect(await figures(page)).toContain(`${pulling.transfer.d_to_p.blocks} blocks`);
        expect(pulling.transfer.d_to_p.blocks).toBeLessThan(6 * Math.ceil(pulling.pulled_tokens / 16));
        windowed = { blocks: await moved(page), tokens: await tokens(page) };
      },
      // With full KV kept, more is moved and the tokens are the same.
      async (page) => {
        const all = await moved(page);
        expect(await tokens(page)).toEqual(windowed.tokens);
        expect(all).toBeGreaterThan(windowed.blocks);
        const compared = await figures(page);
        expect(compared).toContain(`${windowed.blocks} blocks`);
        expect(compared).toContain(`${all} blocks`);
        expect(compared).toContain('tokens of both answers are the same');
        expect(new Set(heldIn(compared)).size).toBe(1);
        // A step that was seen keeps showing its own figures.
        await page.getByRole('button', { name: 'Step 1' }).click();
        expect(heldIn(await figures(page))).toEqual(groups);
        expect(await told(page)).toContain('Fewer blocks of the groups with a window');
      },
    ],
  };
}

/** The checks by lesson number. */
export const looks: Readonly<Record<number, Looks>> = { 7: slowLink, 8: wrongKv(), 10: windows() };
