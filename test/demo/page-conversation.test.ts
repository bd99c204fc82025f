/**
 * What the page must keep and report correctly about a conversation: its KV, the scroll position, which engine computed,
 * and what it shows after failures.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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

describe('a conversation in the page', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await openPage(browser(), `${served().url}#model=dropped+mine&turns=0&speed=live`);
    await untilReady(opened.page);
  });
  afterAll(() => opened.page.close());

  /** Begins another conversation. `change`: changed settings, as JavaScript. */
  async function begin(change: string): Promise<void> {
    await opened.page.evaluate(`kvferry.actions.begin(${change})`);
    await untilReady(opened.page);
  }
  const headline = () =>
    opened.page.getByRole('region', { name: 'What happens now' }).locator('.story-headline').innerText();

  test('uses the shipped model, with a note, when a dropped model is gone after a reload', async () => {
    const { settings, notes, alive } = await readState(opened.page);
    expect(settings).toMatchObject({ model: 'recall' });
    expect(notes.join(' ')).toContain('drop it again');
    expect(alive).toEqual({ prefill: true, decode: true });
  });

  test('has its KV recomputed after a change of mode, with a note, and pulls on the next turn', async () => {
    const { page } = opened;
    await ask(page, 'My name is Ada.');
    await ask(page, 'Tell me a story about Gus and a bear.');
    await page.getByRole('radio', { name: 'One way' }).check();
    await until(page, "state.settings.value.mode === 'unidirectional'");
    await untilReady(page);
    await page.getByRole('radio', { name: 'Both ways' }).check();
    await until(page, "state.settings.value.mode === 'bidirectional'");
    await untilReady(page);
    const { notes, turns } = await readState(page);
    expect(notes.join(' ')).toContain('KV was computed again');
    expect(turns).toHaveLength(2);
    const turn = await ask(page, 'What did Gus find?');
    expect(turn.result).toMatchObject({ turn: 3 });
    expect(turn.result!.pulled_tokens).toBeGreaterThan(0);
  });

  test('keeps its holds when only sampling settings change', async () => {
    const { page } = opened;
    const held = () => page.evaluate('kvferry.state.drawn.decode.value.stats.value.heldRequests');
    const before = await held();
    expect(before).toBeGreaterThan(0);
    await page.evaluate('kvferry.actions.configure({ temperature: 0.5, maxTokens: 20 })');
    expect((await readState(page)).settings).toMatchObject({ temperature: 0.5, maxTokens: 20 });
    expect(await held()).toBe(before);
    await page.evaluate('kvferry.actions.configure({ temperature: 0, maxTokens: 64 })');
  });

  test('shows the old content and turn of a freed block', async () => {
    const { page } = opened;
    const freed = () =>
      page.evaluate<{ id: number; text: string; turn: number }[]>(
        "kvferry.state.drawn.prefill.value.blocks.value.filter((block) => block.state === 'free' && block.tokens > 0)",
      );
    // The newest turn's blocks are attributed to it, whatever they held before.
    await expect.poll(async () => Math.max(...(await freed()).map(({ turn }) => turn))).toBe(3);
    expect((await freed()).every(({ text, turn }) => text !== null && turn >= 1)).toBe(true);
    const [block] = (await freed()).filter(({ turn }) => turn === 3);
    await page.evaluate(`kvferry.actions.point({ at: 'block', role: 'prefill', id: ${block!.id} })`);
    await expect.poll(() => page.locator('#block-inspector').innerText()).toMatch(/its old content.*turn 3/s);
    await page.evaluate('kvferry.actions.point(null)');
  });

  test('counts down the remaining hold time of a block while nothing else happens', async () => {
    const { page } = opened;
    await begin('{ ttl: 60 }');
    await ask(page, 'My name is Ada.');
    const isHeld = ({ heldUntilMs }: { heldUntilMs: number | null }) => heldUntilMs !== null;
    await until(page, `state.drawn.decode.value.blocks.value.some(${isHeld})`);
    const id = await page.evaluate(`kvferry.state.drawn.decode.value.blocks.value.findIndex(${isHeld})`);
    await page.evaluate(`kvferry.actions.point({ at: 'block', role: 'decode', id: ${id} })`);
    const held = () => page.locator('#block-inspector dd', { hasText: 'longer' }).innerText();
    const aloud = () => page.locator('#block-inspector [aria-live]').innerText();
    const [before, said] = [await held(), await aloud()];
    await expect.poll(held).not.toBe(before);
    // Screen readers are not notified every second.
    expect(await aloud()).toBe(said);
    await page.evaluate('kvferry.actions.point(null)');
    await begin('{ ttl: 480 }');
  });

  test('shows a very long question with at most 1000 words as elements', async () => {
    const { page } = opened;
    const { question } = await ask(page, 'word '.repeat(3000).trim());
    const shown = page.locator('.chat-question').last();
    expect(await shown.textContent()).toBe(question);
    expect(await shown.locator('.word').count()).toBe(1000);
  });

  test('scrolls to its newest turn after a question that fills the view', async () => {
    const { page } = opened;
    await ask(page, 'word '.repeat(300).trim());
    const below = () =>
      page.locator('.chat-turns').evaluate((list) => list.scrollHeight - list.scrollTop - list.clientHeight);
    expect(await below()).toBeLessThan(8);
    // Larger text moves the end, and the newest turn stays in view.
    await page.evaluate('kvferry.actions.configure({ projector: true })');
    await expect
      .poll(() =>
        page
          .locator('.chat-answer')
          .last()
          .evaluate((each) => parseFloat(getComputedStyle(each).fontSize)),
      )
      .toBeGreaterThanOrEqual(18);
    await expect.poll(below).toBeLessThan(8);
    await page.evaluate('kvferry.actions.configure({ projector: false })');
  });

  test('wraps a word that is longer than a line', async () => {
    const { page } = opened;
    await ask(page, 'x'.repeat(120));
    const over = await page.locator('.chat-turns').evaluate((list) => list.scrollWidth - list.clientWidth);
    expect(over).toBe(0);
  });

  test('keeps its KV when a prompt is refused, so the next question pulls', async () => {
    await begin('{ threshold: 0, maxTokens: 8 }');
    await ask(opened.page, 'My name is Ada and my boat is mira.');
    await ask(opened.page, 'Tell me a story about Gus and a bear.');
    const refused = await ask(opened.page, 'word '.repeat(3000));
    expect(refused.error).toMatch(/tokens/);
    const turn = await ask(opened.page, 'What is my boat?');
    expect(turn).toMatchObject({ error: null });
    expect(turn.result!.pulled_tokens).toBeGreaterThan(0);
  });

  test('has each block attributed to its own turn, even after ten turns', async () => {
    const { page } = opened;
    let turn = await ask(page, 'Hello');
    while (turn.result!.turn < 10) turn = await ask(page, 'Hello');
    const newest = (role: string) =>
      page.evaluate<number>(
        `Math.max(...kvferry.state.drawn.${role}.value.blocks.value.map(({ turn }) => turn ?? 0))`,
      );
    // A block belongs to the turn of its first token: at most two turns back, as this turn is shorter than a block.
    const least = turn.result!.turn - 2;
    await expect.poll(() => newest('prefill')).toBeGreaterThanOrEqual(least);
    await expect.poll(() => newest('decode')).toBeGreaterThanOrEqual(least);
  });

  test('loses its hold when P is killed during a pull, and pulls again one turn later', async () => {
    const { page } = opened;
    // Slow enough to kill P during the pull.
    await begin("{ link: '40e3,5ms' }");
    await ask(page, 'My name is Ada and my boat is mira.');
    await ask(page, 'Hello');
    await page.evaluate("void kvferry.actions.ask('What is my boat?')");
    await until(
      page,
      "state.transfers.value.some(({ side, endMs }) => side === 'prefill' && endMs === null)",
    );
    await page.evaluate("void kvferry.actions.kill('prefill')");
    await until(page, 'state.turns.value.at(-1).endMs !== null');
    await untilReady(page);
    expect((await readState(page)).turns.at(-1)!.error).toMatch(/prefill-0 ended/);
    // The hold ended with its reader, so no block is drawn as held.
    expect((await readState(page)).blockStates.decode).not.toContain('held');
    const next = await ask(page, 'Hello');
    expect(next).toMatchObject({ error: null, result: { pulled_tokens: 0 } });
    expect(await page.locator('.story-detail').innerText()).toContain('Nothing was pulled');
    expect((await ask(page, 'Hello')).result!.pulled_tokens).toBeGreaterThan(0);
  });

  test('names D alone as the engine that reads and writes in mode decode-local', async () => {
    await begin("{ mode: 'decode-local', link: null }");
    await expect.poll(headline).toContain('D reads and writes alone');
    const heads = await opened.page.locator('.engine-heading').allInnerTexts();
    expect(heads[0]).toContain('reads the first prompt only');
    expect(heads[1]).toContain('reads from turn 2 on');
    await ask(opened.page, 'My name is Ada.');
    await ask(opened.page, 'What is my name?');
    await expect.poll(headline).toMatch(/^D computed \d+ tokens to answer turn 2/);
    expect(await opened.page.locator('.chat-figures').last().innerText()).not.toMatch(/\bP\b/);
  });

  test('shows the active mode with enough contrast, in light and dark', async () => {
    const { page } = opened;
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const contrast = await page.evaluate<number>(`(() => {
        const light = (selector) => {
          const [r, g, b] = getComputedStyle(document.querySelector(selector)).backgroundColor.match(/\\d+/g)
            .map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
        };
        const [one, other] = [light('.mode input:checked + span'), light('.modes')];
        return Math.max(one, other) / Math.min(one, other);
      })()`);
      expect(contrast, colorScheme).toBeGreaterThan(3);
    }
  });

  test('is replaced by a lesson opened from a link, with its settings and no step seen', async () => {
    const { page } = opened;
    for (const [lesson, settings] of [
      [7, { threshold: 0, link: '40e3,5ms', tokenCheck: true, maxTokens: 128 }],
      [8, { threshold: 0, link: null, tokenCheck: false, mode: 'bidirectional' }],
    ] as const) {
      await page.evaluate(`location.hash = '#lesson=${lesson}&speed=live'`);
      await page.getByRole('region', { name: `Lesson ${lesson}:` }).waitFor();
      await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
      expect((await readState(page)).settings).toMatchObject({ lesson, turns: 0, ...settings });
      expect(await page.locator('.lesson-task').getAttribute('data-seen')).toBe('false');
    }
  });

  test('stays when a file is dropped next to the field that takes it, and lets text and file buttons have their drops', async () => {
    const { page } = opened;
    const refused = await page.evaluate(() => {
      const files = new DataTransfer();
      files.items.add(new File(['{}'], 'run.json'));
      const text = new DataTransfer();
      text.setData('text/plain', 'My name is Ada.');
      const isRefused = (selector: string, kind: string, dataTransfer: DataTransfer) => {
        const event = new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer });
        return !document.querySelector(selector)!.dispatchEvent(event);
      };
      return {
        files: ['dragover', 'drop'].map((kind) => isRefused('.engines', kind, files)),
        text: isRefused('.chat-line input', 'drop', text),
        button: isRefused('.tools input[type="file"]', 'drop', files),
      };
    });
    expect(refused).toEqual({ files: [true, true], text: false, button: false });
  });

  test('leaves no error on the console, failed requests included', () => {
    expect(opened.errors).toEqual([]);
  });

  test('has a settings drawer that reports when its code cannot be loaded', async () => {
    const { page } = opened;
    await page.route(/settings-panel/, (route) => route.abort());
    await openSettings(page);
    const drawer = page.getByRole('region', { name: 'Settings' });
    await expect.poll(() => drawer.innerText()).toContain('could not be loaded');
    expect(await drawer.getByRole('button', { name: 'Close' }).isVisible()).toBe(true);
  });
});
