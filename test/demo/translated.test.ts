/** The page while the browser translates it: the translator replaces text nodes, which Preact then no longer changes. */
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { ask, openPage, openSettings, servePage, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

/** Replaces each text by <font> elements with the text in «», now and whenever a text is added, as Chrome's translator does. */
const translate = (page: Page) =>
  page.evaluate(() => {
    const replace = (text: Text) => {
      const parent = text.parentElement;
      if (!parent?.translate || parent.closest('font, script') || text.data.trim() === '') return;
      const [outer, inner] = [document.createElement('font'), document.createElement('font')];
      inner.append(`«${text.data}»`);
      outer.append(inner);
      text.replaceWith(outer);
    };
    const replaceIn = (node: Node) => {
      if (node instanceof Text) replace(node);
      else for (const child of [...node.childNodes]) replaceIn(child);
    };
    replaceIn(document.body);
    new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const node of addedNodes) replaceIn(node);
    }).observe(document.body, { childList: true, subtree: true });
  });

test('a translated page still shows what happens, and lessons and settings are translated', async () => {
  const { page, errors } = await openPage(browser(), `${served().url}#lesson=5&speed=live&maxTokens=12`);
  onTestFinished(() => page.context().close());
  await untilReady(page);
  await translate(page);
  const lesson = page.locator('.lesson');
  expect(await lesson.locator('.lesson-text').innerText()).toMatch(/^«.*»$/);
  const headline = await page.locator('.story-headline').innerText();
  const turn = await ask(page, 'Tell me a story about Gus and a bear.');
  await expect.poll(() => page.locator('.chat-answer').innerText()).toBe(turn.answer);
  expect(await page.locator('.story-headline').innerText()).not.toBe(headline);
  const used = await page.evaluate<number>('kvferry.state.drawn.decode.value.stats.value.usedBlocks');
  expect(used).toBeGreaterThan(0);
  await expect.poll(() => page.locator('.engine-figures').last().innerText()).toContain(`${used} of `);
  await lesson.getByRole('button', { name: 'Step 2' }).click();
  expect(await lesson.locator('.lesson-task p').first().innerText()).toMatch(/^«.*»$/);
  await openSettings(page);
  const help = page.locator('.settings .field-help').first();
  expect(await help.innerText()).toMatch(/^«.*»$/);
  expect(errors).toEqual([]);
});
