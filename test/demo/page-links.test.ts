/** A page opened from a link: its settings are applied and stay in the address while the page is used. */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import {
  ask,
  type OpenedPage,
  openPage,
  openSettings,
  readState,
  servePage,
  until,
  untilReady,
} from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

const open = async (hash: string): Promise<OpenedPage> => {
  const opened = await openPage(browser(), `${served().url}${hash}&speed=live`);
  await untilReady(opened.page);
  return opened;
};

test('a linked lesson is set up with no step seen, and its note covers no button and takes no clicks', async () => {
  const { page } = await open('#link=fast&lesson=1');
  onTestFinished(() => page.close());
  const { settings, turns } = await readState(page);
  expect(settings).toMatchObject({ lesson: 1, mode: 'monolithic', turns: 0 });
  expect(turns).toEqual([]);
  expect(await page.locator('.lesson-task').getAttribute('data-seen')).toBe('false');
  await page.setViewportSize({ width: 1280, height: 800 });
  const note = page.locator('.note').first();
  const { x, y, width, height } = (await note.boundingBox())!;
  for (const button of await page.locator('.lesson button, .stall button').all()) {
    const box = (await button.boundingBox())!;
    const apart =
      box.x + box.width <= x || x + width <= box.x || box.y + box.height <= y || y + height <= box.y;
    expect(apart, await button.innerText()).toBe(true);
  }
  const hit = await page.evaluate<string>(
    `document.elementFromPoint(${x + width / 2}, ${y + height / 2}).className`,
  );
  expect(hit).not.toContain('note');
});

describe('a page from a link with an invalid setting', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await open(
      '#link=fast&model=nano&mode=unidirectional&threshold=7&prefill=2&decode=2&maxTokens=4&turns=0',
    );
  });
  afterAll(() => opened.page.close());

  test('uses the default for it, with a note, and runs', async () => {
    const { settings, notes } = await readState(opened.page);
    expect(settings).toMatchObject({ link: null });
    expect(notes.join(' ')).toContain("link to 'fast': wanted nvlink");
  });

  test('keeps its address when the skip link moves the focus to the engines', async () => {
    const { page } = opened;
    const before = page.url();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(page.url()).toBe(before);
    expect(await page.evaluate("document.activeElement.classList.contains('stage')")).toBe(true);
    expect((await readState(page)).settings).toMatchObject({ mode: 'unidirectional', threshold: 7 });
  });

  test('keeps the active value when a number field is emptied', async () => {
    const { page } = opened;
    const { notes } = await readState(page);
    await openSettings(page);
    const field = page.getByLabel("P's pool, blocks");
    await field.fill('');
    await field.blur();
    expect(await field.inputValue()).toBe('64');
    expect((await readState(page)).notes).toEqual(notes);
    await page.keyboard.press('Escape');
  });

  test('takes a model address on Enter, and reports one that is invalid', async () => {
    const { page } = opened;
    await openSettings(page);
    await page.getByLabel('Address of a model directory').fill('huggingface.co/some/model');
    await page.keyboard.press('Enter');
    await expect
      .poll(async () => (await readState(page)).notes.at(-1))
      .toContain(
        "'huggingface.co/some/model' is not an address: wanted that of a Hugging Face model directory",
      );
    expect((await readState(page)).settings).toMatchObject({ model: 'nano' });
    await page.keyboard.press('Escape');
  });

  test('zooms the timeline on a turn of the mouse wheel over it', async () => {
    const { page } = opened;
    await ask(page, 'Hello');
    const timeline = page.locator('.timeline-canvas');
    await timeline.scrollIntoViewIfNeeded();
    const box = (await timeline.boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 30);
    await page.mouse.move(box.x + box.width / 2 + 5, box.y + 32);
    const fit = page.getByRole('button', { name: 'to the first token' });
    expect(await fit.getAttribute('aria-pressed')).toBe('true');
    await page.mouse.wheel(0, -200);
    await expect.poll(() => fit.getAttribute('aria-pressed')).toBe('false');
  });

  test('says of which of several engines the timeline has the time', async () => {
    const { page } = opened;
    const head = page.locator('.timeline .panel-head');
    expect(await head.innerText()).toContain('P0 and D0 only');
    await page.getByRole('button', { name: 'D1', exact: true }).click();
    await expect.poll(() => head.innerText()).toContain('P0 and D1 only');
    await page.getByRole('button', { name: 'D0', exact: true }).click();
  });

  test('marks crossover times over a modelled link, and says that the link setting has changed', async () => {
    const { page } = opened;
    await page.evaluate(`kvferry.state.crossover.value = {
      points: [32, 64].map((tokens) => ({ tokens, pullMs: tokens, recomputeMs: 50 })),
      ...{ done: 4, total: 4, crossoverTokens: 50, link: '40e3,5ms', running: false, error: null },
    }`);
    const chart = page.getByRole('region', { name: 'Where pulling begins to win' });
    await expect.poll(() => chart.innerText()).toMatch(/over a modelled link.*link setting has changed/s);
    await page.evaluate('kvferry.state.crossover.value = { ...kvferry.state.crossover.value, link: null }');
    await expect.poll(() => chart.innerText()).not.toContain('link');
    await page.evaluate('kvferry.state.crossover.value = null');
  });

  test('shows each engine heading at its own blocks on a phone', async () => {
    const { page } = opened;
    await page.setViewportSize({ width: 390, height: 844 });
    const top = async (selector: string) => (await page.locator(selector).boundingBox())!.y;
    await expect
      .poll(async () => (await top('.engine-heading.is-d')) - (await top('.engines .stage')))
      .toBeGreaterThan(0);
    expect(await top('.engine-heading.is-p')).toBeLessThan(await top('.engines .stage'));
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  test('runs several P and D, and any of them can be shown', async () => {
    const { page } = opened;
    expect(page.workers()).toHaveLength(4);
    await page.getByRole('button', { name: 'Reset' }).click();
    await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
    for (const question of ['Hello', 'And again', 'Once more']) {
      expect((await ask(page, question)).error).toBeNull();
    }
    const engines = () =>
      page.evaluate<string[]>('[...kvferry.state.engines.value.values()].map(({ engineId }) => engineId)');
    expect(await engines()).toEqual(['prefill-0', 'prefill-1', 'decode-0', 'decode-1']);
    await page.getByRole('button', { name: 'D1', exact: true }).click();
    expect(await page.evaluate('kvferry.state.drawn.decode.value.engineId')).toBe('decode-1');
    await page.getByRole('button', { name: 'Kill D' }).click();
    await until(page, "state.drawn.decode.value.engineId === 'decode-0'");
    expect((await ask(page, 'Still there?')).error).toBeNull();
  });

  test('names the one engine that reads and writes in mode monolithic', async () => {
    const { page } = opened;
    await page.getByRole('radio', { name: 'One engine' }).check();
    await until(page, "state.settings.value.mode === 'monolithic'");
    await untilReady(page);
    const heads = () => page.locator('.engine-heading').allInnerTexts();
    expect((await heads())[0]).toContain('not used');
    expect((await heads())[1]).toContain('reads the prompt and writes');
    await ask(page, 'Hello');
    const story = page.getByRole('region', { name: 'What happens now' });
    expect(await story.innerText()).not.toContain('P ');
  });

  test('saves a recording that replays the same turns', async () => {
    const { page } = opened;
    const shown = async () =>
      (await readState(page)).turns.map(({ question, answer, error }) => ({ question, answer, error }));
    const before = await shown();
    expect(before.length).toBeGreaterThan(1);
    const saving = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save recording' }).click();
    const saved = await (await saving).path();
    await page.getByLabel('Load recording').setInputFiles({
      name: 'saved.json',
      mimeType: 'application/json',
      buffer: await readFile(saved),
    });
    await until(page, "state.status.value.phase === 'recorded'");
    await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
    expect(await shown()).toEqual(before);
    await expect.poll(() => page.workers()).toHaveLength(0);
  });

  test('leaves no error on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});
