/** What the page must not lose or misstate: the conversation's KV, the address, the reader's place, who computed. */
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

const stayOpen = async (hash: string): Promise<OpenedPage> => {
  const opened = await openPage(browser(), `${served().url}${hash}&speed=live`);
  await untilReady(opened.page);
  return opened;
};

/** Closed with its test, since every page that is open computes and draws beside the next. */
const open = async (hash: string): Promise<OpenedPage> => {
  const opened = await stayOpen(hash);
  onTestFinished(() => opened.page.close());
  return opened;
};

describe('a conversation', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await stayOpen('#turns=0');
    await ask(opened.page, 'My name is Ada.');
    await ask(opened.page, 'Tell me a story about Gus and a bear.');
  }, 120_000);
  afterAll(() => opened.page.close());

  test('has its KV after a race: the next question pulls', async () => {
    const { page } = opened;
    await page.evaluate('kvferry.actions.runRace()');
    await untilReady(page);
    expect((await readState(page)).race).toMatchObject({ error: null });
    const turn = await ask(page, 'What color was the bear?');
    expect(turn.result!.pulled_tokens).toBeGreaterThan(0);
    expect(turn.result!.turn).toBe(3);
  });

  test('has it after a change of the mode, and is told so', async () => {
    const { page } = opened;
    await page.getByRole('radio', { name: 'One way' }).check();
    await until(page, "state.settings.value.mode === 'unidirectional'");
    await untilReady(page);
    await page.getByRole('radio', { name: 'Both ways' }).check();
    await until(page, "state.settings.value.mode === 'bidirectional'");
    await untilReady(page);
    const { notes, turns } = await readState(page);
    expect(notes.join(' ')).toContain('The conversation was computed again');
    expect(turns).toHaveLength(3);
    const turn = await ask(page, 'What did Gus find?');
    expect(turn.result).toMatchObject({ turn: 4 });
    expect(turn.result!.pulled_tokens).toBeGreaterThan(0);
  });

  test('is untouched by what goes with each question', async () => {
    const { page } = opened;
    const held = () => page.evaluate('kvferry.state.drawn.decode.value.stats.value.heldRequests');
    const before = await held();
    expect(before).toBeGreaterThan(0);
    await page.evaluate('kvferry.actions.configure({ temperature: 0.5, maxTokens: 20 })');
    expect((await readState(page)).settings).toMatchObject({ temperature: 0.5, maxTokens: 20 });
    expect(await held()).toBe(before);
    await page.evaluate('kvferry.actions.configure({ temperature: 0, maxTokens: 64 })');
  });

  test('says of a freed block what was in it, and from which turn', async () => {
    const { page } = opened;
    const freed = () =>
      page.evaluate<{ id: number; text: string; turn: number }[]>(
        "kvferry.state.drawn.prefill.value.blocks.value.filter((block) => block.state === 'free' && block.tokens > 0)",
      );
    // The newest turn's blocks are known for it, whatever lay there before.
    await expect.poll(async () => Math.max(...(await freed()).map(({ turn }) => turn))).toBe(4);
    expect((await freed()).every(({ text, turn }) => text !== null && turn >= 1)).toBe(true);
    const [block] = (await freed()).filter(({ turn }) => turn === 4);
    await page.evaluate(`kvferry.actions.point({ at: 'block', role: 'prefill', id: ${block!.id} })`);
    await expect.poll(() => page.locator('#block-inspector').innerText()).toMatch(/what lies in it.*turn 4/s);
    await page.evaluate('kvferry.actions.point(null)');
  });

  test('follows its newest turn after a question that fills the view', async () => {
    const { page } = opened;
    await ask(page, 'word '.repeat(60).trim());
    const below = await page
      .locator('.chat-turns')
      .evaluate((list) => list.scrollHeight - list.scrollTop - list.clientHeight);
    expect(below).toBeLessThan(8);
  });

  test('breaks a word that is longer than a line', async () => {
    const { page } = opened;
    await ask(page, 'x'.repeat(120));
    const over = await page.locator('.chat-turns').evaluate((list) => list.scrollWidth - list.clientWidth);
    expect(over).toBe(0);
  });

  test('nothing went wrong on the console, and nothing was asked for in vain', () => {
    expect(opened.errors).toEqual([]);
  });

  test('has a drawer that says so where its settings cannot be fetched', async () => {
    const { page } = opened;
    await page.route(/settings-panel/, (route) => route.abort());
    await openSettings(page);
    const drawer = page.getByRole('region', { name: 'Settings' });
    await expect.poll(() => drawer.innerText()).toContain('could not be fetched');
    expect(await drawer.getByRole('button', { name: 'Close' }).isVisible()).toBe(true);
  });
});

describe('the eighth lesson, from a link', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await stayOpen('#lesson=8');
  });
  afterAll(() => opened.page.close());

  test('is set up', async () => {
    const { settings, turns } = await readState(opened.page);
    expect(settings).toMatchObject({ lesson: 8, tokenCheck: false, threshold: 0, turns: 0 });
    expect(turns).toEqual([]);
  });

  test('shows a history that was rewritten: in the chat, in the blocks, in the headline', async () => {
    const { page } = opened;
    await ask(page, 'My name is Ada and my boat is mira.');
    await page.evaluate("kvferry.actions.editHistory('mira', 'luna')");
    const chat = page.getByRole('region', { name: 'Conversation' });
    await expect.poll(() => chat.locator('del').first().innerText()).toBe('mira');
    await expect.poll(() => chat.locator('ins').first().innerText()).toBe('luna');
    const turn = await ask(page, 'What is my boat?');
    expect(turn.answer).toContain('mira');
    const story = page.getByRole('region', { name: 'What happens now' });
    await expect.poll(() => story.innerText()).toMatch(/Wrong KV: \d+ pulled tokens/);
    // The prompt's words beside those that the KV was made from.
    const wrong = await page.evaluate<number>(
      "kvferry.state.drawn.prefill.value.blocks.value.find(({ origin, text }) => origin === 'pulled' && text?.includes('luna')).id",
    );
    await page.evaluate(`kvferry.actions.point({ at: 'block', role: 'prefill', id: ${wrong} })`);
    const inspector = page.locator('#block-inspector .inspector-text');
    await expect.poll(() => inspector.first().innerText()).toContain('luna');
    await expect.poll(() => inspector.last().innerText()).toMatch(/Its KV was made from:.*mira/s);
    await page.evaluate('kvferry.actions.begin({ tokenCheck: true })');
    await untilReady(page);
    await ask(page, 'My name is Ada and my boat is mira.');
    await page.evaluate("kvferry.actions.editHistory('mira', 'luna')");
    expect((await ask(page, 'What is my boat?')).answer).toContain('luna');
    expect(await story.innerText()).not.toContain('Wrong KV');
  });
});

test.each([1, 7])('nothing of lesson %i is ticked before it was done', async (lesson) => {
  const { page } = await open(`#lesson=${lesson}`);
  expect(await page.locator('.lesson-task').getAttribute('data-seen')).toBe('false');
});

test('a model that was dropped before a reload gives way to the shipped one, with a word', async () => {
  const { page } = await open('#model=dropped+mine&turns=0');
  const { settings, notes, alive } = await readState(page);
  expect(settings).toMatchObject({ model: 'recall' });
  expect(notes.join(' ')).toContain('drop it again');
  expect(alive).toEqual({ prefill: true, decode: true });
});

describe('a page from a link that says more than it can mean', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await stayOpen(
      '#link=fast&model=nano&mode=unidirectional&threshold=7&prefill=2&decode=2&maxTokens=4&turns=0',
    );
  });
  afterAll(() => opened.page.close());

  test('keeps the default, and runs', async () => {
    const { settings, notes } = await readState(opened.page);
    expect(settings).toMatchObject({ link: null });
    expect(notes.join(' ')).toContain("link to 'fast': wanted nvlink");
  });

  test('keeps its address when the skip link is followed, which goes to the engines', async () => {
    const { page } = opened;
    const before = page.url();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(page.url()).toBe(before);
    expect(await page.evaluate("document.activeElement.classList.contains('stage')")).toBe(true);
    expect((await readState(page)).settings).toMatchObject({ mode: 'unidirectional', threshold: 7 });
  });

  test('keeps what is in force where a number field is emptied', async () => {
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

  test('shows the timeline larger under a pointer that was moved there and turns its wheel', async () => {
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

  test('has each heading beside its own blocks on a phone', async () => {
    const { page } = opened;
    await page.setViewportSize({ width: 390, height: 844 });
    const top = async (selector: string) => (await page.locator(selector).boundingBox())!.y;
    await expect
      .poll(async () => (await top('.engine-heading.is-d')) - (await top('.engines .stage')))
      .toBeGreaterThan(0);
    expect(await top('.engine-heading.is-p')).toBeLessThan(await top('.engines .stage'));
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  test('runs several P and D, any of which can be looked at', async () => {
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

  test('says who reads and who writes where one engine does all', async () => {
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

  test('saves a recording of what was shown, and reads it', async () => {
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

  test('nothing went wrong on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});
