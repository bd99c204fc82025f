/** The opening, as a newcomer meets it at 1280×800: slow enough to be followed, in one view, without a jump. */
import { beforeAll, expect, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { type OpenedPage, readState, servePage, until, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);
let opened: OpenedPage;
beforeAll(async () => {
  const context = await browser().newContext({ viewport: { width: 1280, height: 800 } });
  // Layout shifts are told to whoever listens from the start.
  await context.addInitScript(() => {
    const shifts: number[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) shifts.push((entry as unknown as { value: number }).value);
    }).observe({ type: 'layout-shift', buffered: true });
  });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  opened = { page, errors };
  await page.goto(served().url);
});

test('shows a turn after it ran, its copy before its first token', async () => {
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

test('then races, and claims what three runs each way carry', async () => {
  const { page } = opened;
  await until(page, "state.race.value?.pull.phase === 'done' || state.race.value?.error", 120_000);
  await untilReady(page);
  const race = (await readState(page)).race as unknown as { error: null; pull: { runsMs: number[] } };
  expect(race.error).toBeNull();
  expect(race.pull.runsMs).toHaveLength(3);
});

test('has stage, both bars of the race and the chat in one view', async () => {
  const { page } = opened;
  for (const selector of ['.engines .stage', '.race-lane:nth-child(2) .stage-bar', '.chat-composer']) {
    const box = (await page.locator(selector).first().boundingBox())!;
    expect(box.y, selector).toBeGreaterThanOrEqual(0);
    expect(box.y + box.height, selector).toBeLessThanOrEqual(800);
  }
});

test('shows all that is known of a block that is pointed at', async () => {
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

test('nothing jumped', async () => {
  const shifts = await opened.page.evaluate<number[]>('globalThis.shifts');
  expect(shifts.reduce((sum, shift) => sum + shift, 0)).toBeLessThan(0.05);
  expect(opened.errors).toEqual([]);
});

test('the last turn is shown again, held, and stepped by stage', async () => {
  const { page } = opened;
  await page.getByRole('button', { name: 'Next stage' }).click();
  const begun = await readState(page);
  expect(begun.turns.at(-1)).toMatchObject({ tokens: 0 });
  expect(begun.time).toMatchObject({ follows: false, playing: false });
  await page.getByRole('button', { name: 'Next stage' }).click();
  expect((await readState(page)).time.atMs).toBeGreaterThan(begun.time.atMs);
  await page.getByRole('button', { name: 'To now' }).click();
  const { turns, time } = await readState(page);
  expect(time.follows).toBe(true);
  expect(turns.at(-1)!.result).not.toBeNull();
});
