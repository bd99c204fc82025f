/** The page in a real browser, with engines on a software GPU. */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Race } from '../../demo/src/session/types.ts';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
import { launchBrowser } from './browser.ts';
import {
  ask,
  builtPage,
  type OpenedPage,
  openPage,
  openSettings,
  readState,
  serveBelow,
  servePage,
  servePlainly,
  until,
  untilReady,
} from './page.ts';

const served = whileTesting(servePage);
/** Each page is opened in its own context. */
const browser = whileTesting(launchBrowser);

describe('the page with WebGPU', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await openPage(browser(), 'about:blank', { width: 1280, height: 800 });
    // Layout shifts must be observed from the start.
    await opened.page.addInitScript(() => {
      const shifts: number[] = [];
      Object.assign(globalThis, { shifts });
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) shifts.push((entry as unknown as { value: number }).value);
      }).observe({ type: 'layout-shift', buffered: true });
    });
    await opened.page.goto(served().url);
  });
  afterAll(() => opened.page.close());

  // The opening, as a first-time visitor sees it: slow enough to follow, in one view, without layout shifts.

  test('replays a turn slowly after it ran, with its copy before its first token', async () => {
    const { page } = opened;
    await until(page, 'state.turns.value.length === 1');
    await until(
      page,
      "!state.time.value.follows && state.transfers.value.some(({ side }) => side === 'decode')",
    );
    const { turns, time } = await readState(page);
    expect(turns[0]!.tokens).toBe(0);
    expect(time).toMatchObject({ follows: false, playing: true });
    expect(time.speed).toBeLessThan(0.5);
  });

  test('is cross-origin isolated, and both workers get a device', async () => {
    const { page } = opened;
    await until(page, 'state.machine.value !== null');
    expect(await page.evaluate('crossOriginIsolated')).toBe(true);
    expect(page.workers()).toHaveLength(2);
    const { alive } = await readState(page);
    expect(alive).toEqual({ prefill: true, decode: true });
    expect(await page.evaluate('kvferry.state.machine.value.adapter.name')).toMatch(/swiftshader/i);
  });

  test('then races one turn three times each way, with the same answer, outside the conversation', async () => {
    const { page } = opened;
    await until(page, "state.race.value?.pull.phase === 'done' || state.race.value?.error");
    await untilReady(page);
    const race = await page.evaluate<Race>('kvferry.state.race.value');
    expect(race).toMatchObject({ error: null, recompute: { pulledTokens: 0 } });
    expect(race.pull.runsMs).toHaveLength(3);
    expect(race.pull.pulledTokens).toBeGreaterThan(0);
    expect(race.pull.answer).toBe(race.recompute.answer);
    // The race's questions are not part of the conversation.
    const { turns } = await readState(page);
    expect(turns.every(({ conversation }) => conversation.startsWith('chat'))).toBe(true);
    // Screen readers hear the result once.
    const aloud = await page.locator('[aria-live]').allInnerTexts();
    expect(aloud.filter((text) => /^(Pulling|No clear difference)/.test(text))).toHaveLength(1);
  });

  test('shows the stage, both race bars and the chat in one view', async () => {
    const { page } = opened;
    for (const selector of ['.engines .stage', '.race-lane:nth-child(2) .stage-bar', '.chat-composer']) {
      const box = (await page.locator(selector).first().boundingBox())!;
      expect(box.y, selector).toBeGreaterThanOrEqual(0);
      expect(box.y + box.height, selector).toBeLessThanOrEqual(800);
    }
  });

  test('shows all facts of a block reached by the keyboard, without cutting them off', async () => {
    const { page } = opened;
    const stage = page.locator('.engines .stage');
    await stage.focus();
    await page.keyboard.press('ArrowRight');
    const inspector = page.locator('#block-inspector');
    await expect.poll(() => inspector.locator('dt').allInnerTexts()).toContain('tokens');
    const [box, facts] = [await inspector.boundingBox(), await inspector.locator('dl').boundingBox()];
    expect(facts!.y + facts!.height).toBeLessThanOrEqual(box!.y + box!.height);
    const cut = await inspector.evaluate((each) => each.scrollHeight - each.clientHeight);
    expect(cut).toBeLessThanOrEqual(0);
    await page.keyboard.press('Escape');
  });

  test('has almost no layout shift', async () => {
    const shifts = await opened.page.evaluate<number[]>('globalThis.shifts');
    expect(shifts.reduce((sum, shift) => sum + shift, 0)).toBeLessThan(0.05);
  });

  test('can replay the last turn paused, step by stage, and return to live', async () => {
    const { page } = opened;
    await page.getByRole('button', { name: 'Next stage' }).click();
    const begun = await readState(page);
    expect(begun.turns.at(-1)).toMatchObject({ tokens: 0 });
    expect(begun.time).toMatchObject({ follows: false, playing: false });
    await page.getByRole('button', { name: 'Next stage' }).click();
    expect((await readState(page)).time.atMs).toBeGreaterThan(begun.time.atMs);
    await page.getByRole('button', { name: 'Live', exact: true }).click();
    const { turns, time } = await readState(page);
    expect(time.follows).toBe(true);
    expect(turns.at(-1)!.result).not.toBeNull();
  });

  test('pulls blocks from D back to P in its third turn', async () => {
    const { page } = opened;
    const { turns, pulls } = await readState(page);
    expect(turns.map(({ error }) => error)).toEqual([null, null, null]);
    const { result } = turns[2]!;
    expect(result!.pulled_tokens).toBeGreaterThan(0);
    expect(result!.local_hit_tokens + result!.pulled_tokens + result!.computed_tokens).toBe(
      result!.prompt_tokens,
    );
    const back = pulls.find(({ side }) => side === 'prefill')!;
    expect(back).toMatchObject({ outcome: 'done', bytesDone: back.bytes });
    expect(back.bytes).toBe(result!.transfer.d_to_p.bytes);
    await expect
      .poll(() => page.getByRole('region', { name: 'Conversation' }).innerText())
      .toContain(turns[2]!.answer);
  });

  test('shows the text in held blocks', async () => {
    const { page } = opened;
    await until(page, "state.drawn.decode.value.blocks.value.some((block) => block.state === 'held')");
    const held = await page.evaluate(
      "kvferry.state.drawn.decode.value.blocks.value.filter((block) => block.state === 'held')",
    );
    const blocks = held as {
      text: string;
      heldFor: string;
      conversation: string;
      hash: string;
      turn: number;
    }[];
    expect(blocks[0]).toMatchObject({ heldFor: 'prefill', turn: 1 });
    expect(blocks.map(({ text }) => text).join('')).toContain('My name is Ada');
  });

  test('has no serious accessibility violation', async () => {
    expect(await seriousFaults(opened.page)).toEqual([]);
  });

  test('keeps the conversation’s KV through the race, so the next question pulls', async () => {
    const { page } = opened;
    await page.evaluate("kvferry.actions.configure({ speed: 'live' })");
    const { result } = await ask(page, 'What color was the bear?');
    expect(result).toMatchObject({ turn: 4 });
    expect(result!.pulled_tokens).toBeGreaterThan(0);
  });

  test('makes P compute, with the reason, when the threshold is out of reach', async () => {
    const { page } = opened;
    await openSettings(page);
    const threshold = page.getByLabel('Recompute threshold, tokens');
    await threshold.fill('100000');
    await threshold.press('Enter');
    await threshold.blur();
    await page.keyboard.press('Escape');
    await until(page, "state.settings.value.threshold === 100000 && state.status.value.phase === 'ready'");
    expect(new URL(page.url()).hash).toContain('threshold=100000');
    const turn = await ask(page, 'What did Gus find?');
    expect(turn.result).toMatchObject({ pulled_tokens: 0 });
    expect(turn.result!.no_pull_reason).toContain('threshold 100000');
  });

  test('ends a turn with an error when D is killed during its answer, and then serves again', async () => {
    const { page } = opened;
    await page.getByRole('button', { name: 'Reset' }).click();
    await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
    // Clicked by the page itself in the frame that shows the third token: the answer may end before a click from here.
    await page.evaluate(() => {
      const killD = () =>
        [...document.querySelectorAll('button')].find((each) => each.innerText.trim() === 'Kill D')!.click();
      Object.assign(globalThis, { killD });
    });
    await page.getByLabel('Your message').fill('Tell me a story about Gus and a bear.');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await until(page, 'state.turns.value.at(-1)?.tokens >= 3 && (globalThis.killD(), true)');
    await until(page, 'state.turns.value.at(-1).endMs !== null');
    const { turns } = await readState(page);
    expect(turns.at(-1)!.error).toMatch(/decode-0 ended/);
    await untilReady(page);
    expect((await readState(page)).alive).toEqual({ prefill: true, decode: true });
    const again = await ask(page, 'Tell me a story about Gus and a bear.');
    expect(again).toMatchObject({ error: null });
    expect(again.answer).toContain('The end.');
  });

  test('offers a streamed handover, whose blocks are shown as they arrive', async () => {
    const { page } = opened;
    await page.getByRole('button', { name: 'Reset' }).click();
    await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
    await openSettings(page);
    await page.getByLabel('Handover from P to D').selectOption('streamed');
    await page.keyboard.press('Escape');
    await until(page, "state.settings.value.handover === 'streamed' && state.status.value.phase === 'ready'");
    expect(new URL(page.url()).hash).toContain('handover=streamed');
    const turn = await ask(page, 'Tell me a story about Gus and a bear.');
    expect(turn).toMatchObject({ error: null });
    expect(turn.answer).toContain('The end.');
    const { pulls } = await readState(page);
    const over = pulls.findLast(({ side }) => side === 'decode')!;
    expect(over).toMatchObject({ outcome: 'done', bytesDone: over.bytes });
    expect(over.pairs).toHaveLength(turn.result!.transfer.p_to_d.blocks);
    expect(over.chunks!.flat()).toEqual(over.pairs);
  });

  test('leaves no error on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});

describe('the address of the page', () => {
  test('restores the settings, and its invalid settings are reported', async () => {
    const hash =
      '#model=nano&mode=unidirectional&seed=5&threshold=7&pBlocks=32&link=10e6%2C1ms&handover=streamed&turns=0&speed=live';
    const { page, errors } = await openPage(browser(), `${served().url}${hash}&treshold=1&dBlocks=many`);
    onTestFinished(() => page.context().close());
    await untilReady(page);
    const { settings, notes } = await readState(page);
    expect(settings).toMatchObject({
      model: 'nano',
      mode: 'unidirectional',
      seed: 5,
      threshold: 7,
      pBlocks: 32,
      dBlocks: 64,
      link: '10e6,1ms',
      handover: 'streamed',
      turns: 0,
    });
    expect(notes.join(' ')).toContain("'treshold', which is not a setting: did you mean threshold?");
    expect(notes.join(' ')).toContain("dBlocks to 'many'");
    await page.getByRole('radio', { name: 'Both ways' }).check();
    await until(
      page,
      "state.settings.value.mode === 'bidirectional' && state.status.value.phase === 'ready'",
    );
    const { page: second } = await openPage(browser(), page.url());
    onTestFinished(() => second.context().close());
    await second.waitForFunction('globalThis.kvferry');
    expect((await readState(second)).settings).toEqual((await readState(page)).settings);
    expect(errors).toEqual([]);
  });

  const below = whileTesting(() => serveBelow('//share/'));

  test('may have a path of two slashes, which stays when settings change', async () => {
    const { page, errors } = await openPage(browser(), `${below().url}?a=b#view=fleet`);
    onTestFinished(() => page.context().close());
    await page.waitForFunction('globalThis.kvferryFleet?.look.value');
    await page.evaluate('kvferryFleet.set({ rate: 3 })');
    await expect.poll(() => page.url()).toBe(`${below().url}?a=b#view=fleet&fleet.rate=3`);
    await page.getByRole('button', { name: 'To P and D' }).click();
    await page.evaluate('kvferry.actions.configure({ projector: true })');
    await expect.poll(() => page.url()).toBe(`${below().url}?a=b#projector=true`);
    expect(errors).toEqual([]);
  });

  test('may not be a file, and the page then says why it cannot run', async () => {
    const page = await browser().newPage();
    onTestFinished(() => page.context().close());
    await page.goto(`${pathToFileURL(path.join(await builtPage(), 'index.html'))}#lesson=3`);
    expect(await page.locator('body').innerText()).toMatch(/cannot run from a file.*npm run demo/);
  });
});

describe('on a host that sets no headers', () => {
  const plain = whileTesting(servePlainly);

  test('the page isolates itself and runs engines', async () => {
    const { page } = await openPage(browser(), `${plain().url}#model=nano&turns=0&speed=live`);
    await page.waitForFunction('globalThis.crossOriginIsolated && globalThis.kvferry');
    await untilReady(page);
    expect((await readState(page)).alive).toEqual({ prefill: true, decode: true });
  });

  test('the page tries again to isolate itself on reload if that failed before', async () => {
    const { page } = await openPage(browser(), 'about:blank');
    await page.addInitScript(`if (!sessionStorage.getItem('refused')) {
      sessionStorage.setItem('refused', 'once');
      navigator.serviceWorker.register = () => Promise.reject(new TypeError('Failed to fetch'));
    }`);
    await page.goto(`${plain().url}#model=nano&turns=0`);
    await until(page, "state.status.value.phase === 'recorded'");
    await page.reload();
    await page.waitForFunction('globalThis.crossOriginIsolated && globalThis.kvferry');
  });
});
