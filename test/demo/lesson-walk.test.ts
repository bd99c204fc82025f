/** Every lesson can be completed: each step can be done, and what it shows appears. */
import { beforeAll, expect, test } from 'vitest';
import { lessons } from '../../demo/src/lessons/index.ts';
import { OBJECTS } from '../../demo/src/lessons/types.ts';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
import { launchBrowser } from './browser.ts';
import { looks } from './lesson-walk-checks.ts';
import { type OpenedPage, openPage, readState, servePage, untilReady, walkStep } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);
let opened: OpenedPage;
beforeAll(async () => {
  opened = await openPage(browser(), `${served().url}#turns=0&speed=live`);
  await untilReady(opened.page);
});

test.each(lessons.map(({ number, title }) => [number, title] as const))(
  'lesson %i can be completed: %s',
  async (number, title) => {
    const { page } = opened;
    // From the previous lesson, or from the list.
    const next = page.getByRole('button', { name: `Next: ${title}` });
    if ((await next.count()) > 0) await next.click();
    else {
      await page.locator('.lesson-menu summary').click();
      await page.getByRole('navigation', { name: 'Lessons' }).getByRole('button', { name: title }).click();
    }
    const lesson = page.getByRole('region', { name: `Lesson ${number}: ${title}` });
    await lesson.waitFor();
    await untilReady(page);
    // Measurements of the previous lesson are gone.
    await expect.poll(() => page.locator('.race-lane, .stall-side').count()).toBe(0);
    await looks[number]?.begun?.(page);
    for (const [i, { look, see }] of lessons[number - 1]!.tasks.entries()) {
      await walkStep(page, lessons[number - 1]!, i);
      await expect.poll(() => lesson.innerText()).toContain(see);
      // The lesson says which prediction came true, and marks the object that the step is about.
      await expect.poll(() => lesson.locator('.lesson-told').innerText()).toMatch(/As you predicted|It was/);
      await expect.poll(() => page.locator(`${OBJECTS[look]}[data-pointed]`).count()).toBe(1);
      await untilReady(page);
      await looks[number]?.seen[i]?.(page);
    }
    await lesson.getByRole('button', { name: 'Think' }).click();
    await lesson.locator('summary').click();
    await expect.poll(() => lesson.locator('details p').innerText()).toBe(lessons[number - 1]!.answer);
    expect(await seriousFaults(page)).toEqual([]);
    // Questions of a race or a sweep are not part of the conversation.
    const { turns } = await readState(page);
    expect(turns.filter(({ conversation }) => !conversation.startsWith('chat'))).toEqual([]);
    expect(opened.errors).toEqual([]);
  },
  300_000,
);
