/** The page in other sizes, spacings and colours, and under very quick input: nothing is cut off or lost. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, settingsOf, simulated, until } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(() => launchBrowser({ webgpu: false }));

/** Opens the page at the end of the recorded run of the lesson in `hash`, or of the shipped one. */
async function openAtEnd(hash: string, width: number): Promise<Page> {
  const { page } = await openPage(browser(), `${served().url}${hash}`, { width, height: 844 });
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded'");
  await page.evaluate('kvferry.actions.pauseTime(), kvferry.actions.seek(1e9)');
  return page;
}

const tooWide = (page: Page) => page.evaluate('document.documentElement.scrollWidth - innerWidth');

/** WCAG 2.2's 1.4.12. */
const SPACED = `* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }
  p { margin-bottom: 2em !important; }`;

test('at 320 pixels wide (1,280 at 400% zoom) the page, the lesson list and tables do not overflow sideways', async () => {
  const page = await openAtEnd('', 320);
  await page.locator('.lesson-menu summary').click();
  await page.getByRole('navigation').getByRole('button').first().waitFor();
  expect(await tooWide(page)).toBe(0);
  await page.keyboard.press('Escape');
  await page.getByText('Blocks as a table').click();
  await page.locator('.engines .as-table-body').waitFor();
  expect(await tooWide(page)).toBe(0);
});

test('the title of a recording with a long model address fits into the page', async () => {
  const page = await openAtEnd('', 390);
  const file = path.join(import.meta.dirname, '../../demo/recordings/lesson-3.json');
  const title = `https://huggingface.co/${'organisation'.repeat(8)}/resolve/main, bidirectional, 1 turn`;
  const recording = { ...JSON.parse(readFileSync(file, 'utf8')), title };
  await page.getByLabel('Load recording').setInputFiles({
    name: 'long.json',
    mimeType: 'application/json',
    buffer: Buffer.from(JSON.stringify(recording)),
  });
  await until(page, "state.replay.value.title.startsWith('https')");
  await page.locator('.replay-title', { hasText: 'https' }).waitFor();
  expect(await tooWide(page)).toBe(0);
});

test.each([320, 700])(
  "with WCAG's widest text spacing the story is not cut off at %i pixels",
  async (width) => {
    const page = await openAtEnd('#lesson=12', width);
    await page.addStyleTag({ content: SPACED });
    const cut = await page
      .locator('.story, .story-detail')
      .evaluateAll((all) => all.map((one) => one.scrollHeight - one.clientHeight));
    expect(cut).toEqual([0, 0]);
  },
);

test('on a low screen no button of a lesson is cut off, also in a projector, before and after a prediction', async () => {
  const { page } = await openPage(browser(), `${served().url}#lesson=8`, { width: 1024, height: 600 });
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded'");
  const lesson = page.locator('.lesson');
  const cutOff = () =>
    lesson.evaluate((panel) => {
      const { bottom } = panel.getBoundingClientRect();
      return [...panel.querySelectorAll('button')]
        .filter((button) => button.checkVisibility() && button.getBoundingClientRect().bottom > bottom)
        .map((button) => button.innerText);
    });
  await lesson.getByRole('button', { name: 'Think' }).waitFor();
  expect(await cutOff()).toEqual([]);
  await page.getByRole('button', { name: 'Projector' }).click();
  await expect.poll(cutOff).toEqual([]);
  await lesson.locator('.lesson-choices button').first().click();
  await expect.poll(cutOff).toEqual([]);
  await page.setViewportSize({ width: 1280, height: 720 });
  await expect.poll(cutOff).toEqual([]);
});

test.each([
  ['the conversation', 320, 256, ''],
  ['a lesson', 320, 256, '#lesson=8'],
  ['a lesson', 640, 512, '#lesson=8'],
  ['a lesson', 1280, 720, '#lesson=8'],
  ['the fleet', 320, 256, '#view=fleet'],
])('nothing covers the focused control: %s at %i × %i', async (_, width, height, hash) => {
  const { page } = await openPage(browser(), `${served().url}${hash}`, { width, height });
  onTestFinished(() => page.close());
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await page
    .locator(hash === '#view=fleet' ? '.fleet-turn' : '.timeline canvas')
    .first()
    .waitFor();
  if (hash === '#lesson=8') await page.locator('.lesson-task').waitFor();
  const reached: string[] = [];
  for (;;) {
    await page.keyboard.press('Tab');
    const [name, seen] = await page.evaluate<[string, boolean]>(FOCUSED);
    if (name === '') break;
    if (!seen) expect.fail(`'${name}', after ${reached.join(', ')}`);
    reached.push(name);
  }
  expect(reached.length).toBeGreaterThan(20);
});

/** The name of the focused element, '' if there is none, and whether some of nine points on it are seen. */
const FOCUSED = `(() => {
  const focused = document.activeElement;
  if (focused === document.body) return ['', false];
  const name = focused.ariaLabel ?? (focused.textContent || focused.closest('label')?.textContent || focused.tagName);
  const { x, y, width, height } = focused.getBoundingClientRect();
  const parts = [0.1, 0.5, 0.9];
  const hits = parts.flatMap((across) => parts.map((down) => document.elementFromPoint(x + across * width, y + down * height)));
  const own = focused.closest('label') ?? focused;
  return [name.trim().slice(0, 40), hits.some((hit) => hit && own.contains(hit))];
})()`;

test('with forced colours, the layer of saves and loads does not hide the tiles below it', async () => {
  const { page } = await openPage(browser(), `${served().url}#view=fleet&fleet.store=100`);
  onTestFinished(() => page.close());
  await page.emulateMedia({ forcedColors: 'active' });
  const layer = page.locator('.fleet-flights canvas');
  const ground = (where: Locator) => where.evaluate((one) => getComputedStyle(one).backgroundColor);
  expect(await ground(layer)).toBe('rgba(0, 0, 0, 0)');
  expect(await ground(page.locator('.fleet-tile canvas').first())).not.toBe('rgba(0, 0, 0, 0)');
});

test('with forced colours, bars and drawings keep their colours and the chosen option stands out', async () => {
  const page = await openAtEnd('', 1280);
  await page.emulateMedia({ forcedColors: 'active', colorScheme: 'dark' });
  const colours = (where: string) =>
    page
      .locator(where)
      .evaluateAll((all) => new Set(all.map((one) => getComputedStyle(one).backgroundColor)).size);
  expect(await colours('.race .stage-bar-part')).toBeGreaterThan(2);
  expect(await colours('.segments button')).toBe(2);
  // The light theme keeps its light background whatever the visitor's colours are.
  await page.getByLabel('Light or dark').selectOption('light');
  const ground = () =>
    page
      .locator('.engines canvas')
      .first()
      .evaluate((one) => getComputedStyle(one).backgroundColor);
  await expect.poll(ground).toBe('rgb(255, 255, 255)');
});

/** Safari's limit on history changes; this Chromium is configured to accept all. */
const FEW_CHANGES = `{
  const made = [];
  const replace = history.replaceState.bind(history);
  history.replaceState = (...change) => {
    made.push(performance.now());
    if (made.length > 100 && made.at(-1) - made.at(-101) < 10_000)
      throw new DOMException('more than 100 times per 10 seconds', 'SecurityError');
    replace(...change);
  };
}`;

test('a rate slider dragged for long ends up applied and in the address, without exceeding the history limit', async () => {
  const { page, errors } = await openPage(browser(), 'about:blank');
  onTestFinished(() => page.close());
  await page.addInitScript(FEW_CHANGES);
  await page.goto(`${served().url}#view=fleet`);
  await simulated(page, 1);
  await page.getByRole('slider').evaluate((slider: HTMLInputElement) => {
    for (let i = 0; i < 400; i++) {
      slider.value = String((i % 100) + 1);
      slider.dispatchEvent(new InputEvent('input', { bubbles: true }));
    }
  });
  const { rate } = await settingsOf(page);
  await expect.poll(() => page.evaluate('location.hash')).toContain(`fleet.rate=${rate}`);
  expect(errors).toEqual([]);
});
