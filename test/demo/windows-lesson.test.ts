/** The lesson on windows, live: what it says is what the page's own blocks and turns say. */
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { lessonNumbered } from '../../demo/src/lessons/index.ts';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { type OpenedPage, openPage, readState, servePage, until, untilReady, walkStep } from './page.ts';

const lesson = lessonNumbered(10)!;

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);
let opened: OpenedPage;
beforeAll(async () => {
  opened = await openPage(browser(), `${served().url}#lesson=10&speed=live`);
  await untilReady(opened.page);
});

const said = (page: Page): Promise<string> => page.locator('.lesson-figures').innerText();
const told = (page: Page): Promise<string> => page.locator('.lesson-told').innerText();

/** Of what D holds, by group. */
const held = (page: Page): Promise<number[]> =>
  page.evaluate(`(() => {
    const counts = [];
    for (const { state, group } of kvferry.state.drawn.decode.value.blocks.value)
      if (state === 'held') counts[group] = (counts[group] ?? 0) + 1;
    return counts;
  })()`);

/** As the lesson counts them. */
function heldIn(sentence: string): number[] {
  return [...sentence.matchAll(/group \d+: (\d+)/g)].map(([, count]) => Number(count));
}

async function moved(page: Page): Promise<number> {
  const { turns } = await readState(page);
  return turns
    .map(({ result }) => result!.transfer)
    .reduce((sum, { p_to_d, d_to_p }) => sum + p_to_d.blocks + d_to_p.blocks, 0);
}

test('a question within the window saves nothing, and that is said', async () => {
  const { page } = opened;
  await page.evaluate("kvferry.actions.ask('Who is there?')");
  await page.locator('.lesson-figures').waitFor();
  expect(await said(page)).toContain('Nothing was saved');
}, 180_000);

test('fewer blocks are held, handed over and pulled; with all kept the tokens are the same', async () => {
  const { page, errors } = opened;
  await page.getByRole('button', { name: 'Begin again' }).click();
  await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
  expect((await readState(page)).settings).toMatchObject({ model: 'tiny-hybrid', allFullKv: false });

  await walkStep(page, lesson, 0);
  await untilReady(page);
  const groups = heldIn(await said(page));
  expect(groups).toEqual(await held(page));
  expect(groups).toHaveLength(6);
  // The window of 128 tokens, in blocks of 16, and one more where it does not begin with a block.
  expect(groups.filter((count) => count <= 128 / 16 + 1)).toHaveLength(5);
  expect(Math.max(...groups)).toBeGreaterThan(128 / 16 + 1);
  expect(await told(page)).toContain('Fewer blocks of the groups with a window');

  await walkStep(page, lesson, 1);
  await untilReady(page);
  const pulling = (await readState(page)).turns.at(-1)!.result!;
  expect(await said(page)).toContain(`${pulling.transfer.d_to_p.blocks} blocks`);
  expect(pulling.transfer.d_to_p.blocks).toBeLessThan(6 * Math.ceil(pulling.pulled_tokens / 16));
  const windowed = { blocks: await moved(page), turns: (await readState(page)).turns };

  await walkStep(page, lesson, 2);
  await untilReady(page);
  const all = { blocks: await moved(page), turns: (await readState(page)).turns };
  expect(all.turns.map(({ result }) => result!.output_token_ids)).toEqual(
    windowed.turns.map(({ result }) => result!.output_token_ids),
  );
  expect(all.blocks).toBeGreaterThan(windowed.blocks);
  const compared = await said(page);
  expect(compared).toContain(`${windowed.blocks} blocks`);
  expect(compared).toContain(`${all.blocks} blocks`);
  expect(compared).toContain('tokens of both answers are the same');
  expect(new Set(heldIn(compared)).size).toBe(1);

  // What was seen goes on saying what was measured then.
  await page.getByRole('button', { name: 'Step 1' }).click();
  expect(heldIn(await said(page))).toEqual(groups);
  expect(await told(page)).toContain('Fewer blocks of the groups with a window');
  expect(errors).toEqual([]);
}, 280_000);
