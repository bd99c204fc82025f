/** Features for a classroom: words and blocks that highlight each other, large text, and hints after a greeting. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
import { launchBrowser } from './browser.ts';
import { canvasFaults, watchCanvasText } from './overprint.ts';
import { ask, type OpenedPage, openPage, readState, servePage, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

/** Opens a page that records the texts on its canvases. */
async function openWatched(hash: string, viewport: { width: number; height: number }): Promise<OpenedPage> {
  const opened = await openPage(browser(), 'about:blank', viewport);
  await watchCanvasText(opened.page.context());
  await opened.page.goto(`${served().url}${hash}`);
  await untilReady(opened.page);
  return opened;
}

/** Shows the stall recorded for the first lesson, to check how it is drawn. */
const showStall = (page: Page) =>
  page.evaluate(`(async () => {
    const { events } = await (await fetch('recordings/lesson-1.json')).json();
    const { stall } = events.findLast(({ kind }) => kind === 'stall');
    kvferry.state.stall.value = { ...stall, startedMs: kvferry.state.nowMs() };
  })()`);
const words = (page: Page) =>
  page.evaluate<string>('[...canvasTexts.values()].flat().map(({ text }) => text).join()');
const canvases = (page: Page) =>
  page.evaluate<number[]>(
    "[...document.querySelectorAll('canvas')].filter((one) => one.checkVisibility()).map((one) => one.clientWidth)",
  );

async function drawAll(page: Page, width: number): Promise<void> {
  const before = await canvases(page);
  const resized = page.viewportSize()!.width !== width;
  await page.setViewportSize({ width, height: 844 });
  if (resized) await expect.poll(() => canvases(page)).not.toEqual(before);
  for (const seen of ['.stall', '.crossover', '.timeline', '.engines .stage']) {
    await page.locator(seen).scrollIntoViewIfNeeded();
    // A frame makes it visible and a later one draws it.
    await page.evaluate(`new Promise((resolve) => {
      const after = (frames) => (frames === 0 ? resolve() : requestAnimationFrame(() => after(frames - 1)));
      after(4);
    })`);
  }
  await expect.poll(() => words(page)).toMatch(/handover/);
  for (const drawn of ['first user', 'tokens that D has', 'router', 'first token'])
    expect(await words(page)).toContain(drawn);
}

async function allFits(page: Page, ...widths: number[]): Promise<void> {
  for (const width of widths) {
    await drawAll(page, width);
    expect(await canvasFaults(page), `${width} pixels wide`).toEqual([]);
  }
}

describe('a page after two questions', () => {
  let opened: OpenedPage;
  const inspector = () => opened.page.locator('#block-inspector');
  const lit = () => opened.page.locator('.word[data-lit="true"]').allInnerTexts();
  beforeAll(async () => {
    opened = await openWatched('#turns=0&speed=live', { width: 1280, height: 900 });
    await ask(opened.page, 'My name is Ada and my boat is mira.');
    await ask(opened.page, 'Tell me a story about Gus and a bear.');
  });
  afterAll(() => opened.page.close());

  test('lights the blocks of a word under the pointer, and the inspector names them', async () => {
    const { page } = opened;
    await page.locator('.chat-question .word', { hasText: 'bear' }).first().hover();
    await expect.poll(() => inspector().innerText()).toMatch(/“bear\.” is in .*D's block \d+/);
    expect((await lit()).join(' ')).toContain('bear.');
    // The inspector keeps it after the pointer has moved on.
    await page.mouse.move(5, 5);
    await expect.poll(lit).toEqual([]);
    await expect.poll(() => inspector().innerText()).toContain('bear');
  });

  test('lights the words of a block that is pointed at; the keyboard can point too', async () => {
    const { page } = opened;
    const id = (await page.evaluate(
      "kvferry.state.drawn.decode.value.blocks.value.find((block) => block.text?.includes('name is Ada')).id",
    )) as number;
    await page.evaluate(`kvferry.actions.point({ at: 'block', role: 'decode', id: ${id} })`);
    await expect.poll(async () => (await lit()).join(' ')).toContain('Ada');
    await page.keyboard.press('Escape');
    await page.locator('.engines .stage').focus();
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => page.evaluate('kvferry.state.pointed.value?.at')).toBe('block');
  });

  test('moves from word to word with the arrow keys until Escape', async () => {
    const { page } = opened;
    await page.locator('.chat-turns').focus();
    await page.keyboard.press('ArrowLeft');
    const first = await page.evaluate('kvferry.state.pointed.value');
    expect(first).toMatchObject({ at: 'word', part: 'answer' });
    await page.keyboard.press('ArrowLeft');
    expect(await page.evaluate('kvferry.state.pointed.value')).not.toEqual(first);
    await expect.poll(lit).not.toEqual([]);
    await page.keyboard.press('Escape');
    await expect.poll(lit).toEqual([]);
  });

  test('answers a greeting with a hint about what the model knows', async () => {
    const { page } = opened;
    await ask(page, 'Hello');
    await expect.poll(() => page.locator('.chat-hint').innerText()).toContain('My name is Ada.');
    await expect.poll(() => page.locator('.chat-hint').count()).toBe(1);
    await expect
      .poll(() => page.locator('.chat-knows').innerText())
      .toContain('It knows nothing about the world');
  });

  test('switches projector mode by a button, and keeps it in the address', async () => {
    const { page } = opened;
    const button = page.getByRole('button', { name: 'Projector' });
    await button.click();
    expect(new URL(page.url()).hash).toContain('projector=true');
    expect(await button.getAttribute('aria-pressed')).toBe('true');
    expect((await readState(page)).settings).toMatchObject({ projector: true });
    expect(await seriousFaults(page)).toEqual([]);
    await button.click();
    expect(new URL(page.url()).hash).not.toContain('projector');
  });

  test('lets a second user ask during the first answer, and shows both in the legend', async () => {
    const { page } = opened;
    await page.evaluate('kvferry.actions.begin({ conversations: 2 })');
    await untilReady(page);
    await page.evaluate('kvferry.actions.step()');
    await untilReady(page);
    const starts = (await page.evaluate(
      'kvferry.state.turns.value.map(({ startMs, firstTokenMs }) => [startMs, firstTokenMs])',
    )) as [number, number][];
    expect(starts).toHaveLength(2);
    // The second asks while the first is being answered.
    expect(starts[1]![0]).toBeGreaterThan(starts[0]![1]);
    await page.getByText('What the marks mean').click();
    await expect.poll(() => page.locator('.legend').innerText()).toContain('conversation 2');
  });

  test('has no overlapping or cut-off text on a canvas, on a phone or a desktop', async () => {
    const { page } = opened;
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await showStall(page);
    const aloud = await page.locator('[aria-live]').allInnerTexts();
    expect(aloud.filter((text) => text.includes('without a token'))).toHaveLength(1);
    await allFits(page, 390, 1280);
  });

  test('shows the whole count of the first user, on a phone too', async () => {
    const { page } = opened;
    const counts = page.locator('.stall-said');
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 844 });
      await expect
        .poll(() => counts.allInnerTexts())
        .toEqual([expect.stringMatching(/50\.$/), expect.stringMatching(/50\.$/)]);
      const cut = await counts.evaluateAll((all) =>
        all.map((one) => Math.max(one.scrollHeight - one.clientHeight, one.scrollWidth - one.clientWidth)),
      );
      expect(cut).toEqual([0, 0]);
    }
  });

  test('leaves no error on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});

describe('a page in projector mode', () => {
  let page: Page;
  beforeAll(async () => {
    const hash = '#projector=true&turns=2&speed=live&store=1MiB&offloadPromptOnly=false';
    ({ page } = await openWatched(hash, { width: 390, height: 844 }));
    await page.emulateMedia({ reducedMotion: 'reduce' });
  });
  afterAll(() => page.close());

  test('has no overlapping or cut-off text on a canvas, on a phone or a desktop', async () => {
    await showStall(page);
    await allFits(page, 390, 1280, 390);
  });

  test('has no text below 18 pixels, no raw ids, and no sideways overflow', async () => {
    await ask(page, 'Hello');
    await page.getByText('What the marks mean').click();
    await drawAll(page, 1280);
    const small = await page.evaluate<string[]>(`(() => {
      const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const small = [];
      for (let node = words.nextNode(); node; node = words.nextNode()) {
        const element = node.parentElement;
        if (node.data.trim() === '' || element.closest('script, style, .visually-hidden')) continue;
        if (!element.checkVisibility()) continue;
        const size = parseFloat(getComputedStyle(element).fontSize);
        if (size < 18) small.push(size + ' ' + element.className + ' ' + node.data.trim());
      }
      return small;
    })()`);
    expect(small).toEqual([]);
    const drawn = await page.evaluate<string[]>('[...drawnInFonts]');
    // Engines and requests are not shown by their raw ids either.
    const raw = /\b(prefill|decode)-\d|chat-\d+#|#\d+\.\d+/;
    expect(drawn.filter((text) => raw.test(text))).toEqual([]);
    await page.getByText('The last turn as a table').click();
    expect(await page.locator('body').innerText()).not.toMatch(raw);
    const sizeOf = (font: string) => Number(/([\d.]+)px/.exec(font)![1]);
    expect(drawn.filter((font) => sizeOf(font) < 18)).toEqual([]);
    const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
    expect(wide).toBeLessThanOrEqual(0);
  });
});
