/** What goes wrong costs no more than it must, and what the page says and shows of engines, turns and modes is so. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { ask, type OpenedPage, openPage, readState, servePage, until, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);
const open = async (hash: string): Promise<OpenedPage> => {
  const opened = await openPage(browser(), `${served().url}${hash}&speed=live`);
  await untilReady(opened.page);
  return opened;
};
const story = ({ page }: OpenedPage) =>
  page.getByRole('region', { name: 'What happens now' }).locator('.story-headline').innerText();

describe('a conversation whose turns fail', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await open('#turns=0&maxTokens=8&threshold=0');
    await ask(opened.page, 'My name is Ada and my boat is mira.');
    await ask(opened.page, 'Tell me a story about Gus and a bear.');
  }, 120_000);
  afterAll(() => opened.page.close());

  test('keeps its KV when a prompt is refused: the next question pulls', async () => {
    const refused = await ask(opened.page, 'word '.repeat(3000));
    expect(refused.error).toMatch(/tokens/);
    const turn = await ask(opened.page, 'What is my boat?');
    expect(turn).toMatchObject({ error: null });
    expect(turn.result!.pulled_tokens).toBeGreaterThan(0);
  });

  test('has each block known for its own turn, beyond the seventh too', async () => {
    const { page } = opened;
    let turn = await ask(page, 'Hello');
    while (turn.result!.turn < 10) turn = await ask(page, 'Hello');
    const newest = (role: string) =>
      page.evaluate<number>(
        `Math.max(...kvferry.state.drawn.${role}.value.blocks.value.map(({ turn }) => turn ?? 0))`,
      );
    // A block is of the turn that its first token is from: at most two before this one, whose tokens are fewer than a block's.
    const least = turn.result!.turn - 2;
    await expect.poll(() => newest('prefill')).toBeGreaterThanOrEqual(least);
    await expect.poll(() => newest('decode')).toBeGreaterThanOrEqual(least);
  });

  test('nothing went wrong on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});

test('P that is killed while it pulls: D holds nothing for it any more, as is said, and has it again a turn later', async () => {
  // Slow enough to be met.
  const { page } = await open('#turns=0&maxTokens=8&threshold=0&link=40e3,5ms');
  onTestFinished(() => page.close());
  await ask(page, 'My name is Ada and my boat is mira.');
  await ask(page, 'Hello');
  await page.evaluate("void kvferry.actions.ask('What is my boat?')");
  await until(page, "state.transfers.value.some(({ side, endMs }) => side === 'prefill' && endMs === null)");
  await page.evaluate("void kvferry.actions.kill('prefill')");
  await until(page, 'state.turns.value.at(-1).endMs !== null');
  await untilReady(page);
  expect((await readState(page)).turns.at(-1)!.error).toMatch(/prefill-0 ended/);
  // With its reader's end the hold ended: nothing is drawn as held that cannot be had.
  expect((await readState(page)).blockStates.decode).not.toContain('held');
  const next = await ask(page, 'Hello');
  expect(next).toMatchObject({ error: null, result: { pulled_tokens: 0 } });
  expect(await page.locator('.story-detail').innerText()).toContain('Nothing was pulled');
  expect((await ask(page, 'Hello')).result!.pulled_tokens).toBeGreaterThan(0);
});

test('D alone is said to read and to write, and P to rest', async () => {
  const opened = await open('#turns=0&mode=decode-local&maxTokens=8');
  onTestFinished(() => opened.page.close());
  expect(await story(opened)).toContain('D reads and writes by itself');
  const heads = await opened.page.locator('.engine-heading').allInnerTexts();
  expect(heads[0]).toContain('reads the first prompt only');
  expect(heads[1]).toContain('reads from turn 2 on');
  await ask(opened.page, 'My name is Ada.');
  await ask(opened.page, 'What is my name?');
  await expect.poll(() => story(opened)).toMatch(/^D computed \d+ tokens to answer turn 2/);
  expect(await opened.page.locator('.chat-figures').last().innerText()).not.toMatch(/\bP\b/);
});

test('the mode in force is told from the others, in the dark too', async () => {
  const { page } = await open('#turns=0&model=nano');
  onTestFinished(() => page.close());
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

test('a note lies on nothing that a lesson needs, and takes no click from what it lies on', async () => {
  const { page } = await open('#link=fast&lesson=1');
  onTestFinished(() => page.close());
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
