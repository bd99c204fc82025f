/** The page in a browser without WebGPU: it says what is missing and replays a recording. */
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { lessons } from '../../demo/src/lessons/index.ts';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
import { launchBrowser } from './browser.ts';
import { watchCanvasText } from './overprint.ts';
import { type OpenedPage, openPage, readState, servePage, until, walkStep } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(() => launchBrowser({ webgpu: false }));

/**
 * A clock that advances 60 ms per frame, so that a recording plays quickly on an idle machine and not past the frames
 * that a busy one draws. Nothing else in these tests uses this clock.
 */
const BY_THE_FRAME = `{
  let now = 0;
  performance.now = () => now;
  requestAnimationFrame(function frame() {
    now += 60;
    requestAnimationFrame(frame);
  });
}`;

async function openRecorded(lesson: number): Promise<OpenedPage> {
  const opened = await openPage(browser(), 'about:blank');
  await opened.page.addInitScript(BY_THE_FRAME);
  await opened.page.goto(`${served().url}#lesson=${lesson}&speed=4/1`);
  await until(opened.page, "state.status.value.phase === 'recorded'");
  return opened;
}

/** Texts that some lessons show after their last step instead of `see`. */
const TOLD: Readonly<Record<number, string>> = { 10: 'tokens of both answers are the same' };

test('the chat follows an answer, but not while the reader has scrolled back with a key', async () => {
  const { page } = await openPage(browser(), served().url);
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded'");
  await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
  const list = page.locator('.chat-turns');
  const top = () => list.evaluate(({ scrollTop }) => scrollTop);
  const below = () =>
    list.evaluate(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight);
  /** More of the last answer arrives. */
  const goOn = async () => {
    const before = await list.evaluate(({ scrollHeight }) => scrollHeight);
    await page.evaluate(`{
      const { turns } = kvferry.state;
      const last = turns.value.at(-1);
      const more = { answer: last.answer + ' and so on'.repeat(100), tokens: last.tokens + 100 };
      turns.value = [...turns.value.slice(0, -1), { ...last, ...more }];
    }`);
    await expect.poll(() => list.evaluate(({ scrollHeight }) => scrollHeight)).toBeGreaterThan(before);
  };
  await goOn();
  await expect.poll(below).toBeLessThan(8);
  await list.focus();
  await page.keyboard.press('Home');
  await expect.poll(top).toBe(0);
  await goOn();
  await page.waitForTimeout(200);
  expect(await top()).toBe(0);
  await page.keyboard.press('End');
  await expect.poll(below).toBeLessThan(8);
  await goOn();
  await expect.poll(below).toBeLessThan(8);
});

test('a word of the history that was edited twice is shown with both edits', async () => {
  const { page } = await openPage(browser(), served().url);
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded'");
  await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
  await page.evaluate(`{
    const { turns } = kvferry.state;
    const edits = [{ from: 'bear', to: 'fox' }, { from: 'fox', to: 'wolf' }];
    turns.value = [{ ...turns.value.at(-1), question: 'Is it a bear?', edits }];
  }`);
  const question = page.locator('.chat-question');
  await expect.poll(() => question.locator('del').allInnerTexts()).toEqual(['bear', 'fox']);
  expect(await question.locator('ins ins').innerText()).toBe('wolf');
});

test('without WebGPU the page says what is missing and replays a recorded run', async () => {
  const { page, errors } = await openPage(browser(), served().url);
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded'");
  const why = page.locator('.banner-why');
  await expect.poll(() => why.innerText()).toMatch(/WebGPU/);
  await expect.poll(() => page.getByText('Recorded', { exact: true }).isVisible()).toBe(true);
  await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
  const { turns, race, crossover, blockStates, replay, time } = await readState(page);
  expect(turns.length).toBeGreaterThan(5);
  expect(turns.every(({ result }) => result !== null)).toBe(true);
  expect(race!.pull.ttftMs).toBeGreaterThan(0);
  expect(crossover!.points.length).toBeGreaterThan(2);
  expect(blockStates.decode).toContain('cached');
  expect(replay).toMatchObject({ title: expect.stringContaining('both ways') });
  expect(time.atMs).toBe(time.lengthMs);
  await page.evaluate('kvferry.actions.seek(0)');
  expect((await readState(page)).turns).toEqual([]);
  expect(await why.innerText()).toMatch(/WebGPU/);
  await page.evaluate('kvferry.actions.step()');
  expect((await readState(page)).turns[0]!.answer).toContain('Ada');
  expect(await seriousFaults(page)).toEqual([]);
  expect(errors).toEqual([]);
});

test('the chart of pulling and computing has numbers on its axes once something was measured', async () => {
  const { page } = await openPage(browser(), 'about:blank');
  onTestFinished(() => page.close());
  await watchCanvasText(page.context());
  await page.goto(served().url);
  await until(page, "state.status.value.phase === 'recorded'");
  const drawn = () =>
    page.evaluate<string[]>(
      "[...canvasTexts].flatMap(([canvas, all]) => canvas.closest('.crossover') ? all.map(({ text }) => text) : [])",
    );
  await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(0)');
  await expect.poll(drawn).toEqual(['tokens that D has and P lacks', 'time to the first token, ms']);
  await page.evaluate('kvferry.actions.seek(1e9)');
  await expect.poll(drawn).toEqual(expect.arrayContaining(['0', '100', '200']));
});

test('is printed in light colours, with everything drawn, and without its controls', async () => {
  const { page } = await openPage(browser(), served().url, { width: 1280, height: 400 });
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded'");
  await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
  await page.getByLabel('Light or dark').selectOption('dark');
  await page.waitForLoadState('networkidle');
  const picture = "document.querySelector('.timeline canvas').toDataURL()";
  await page.evaluate(`addEventListener('beforeprint', () => { globalThis.printed = ${picture}; })`);
  const pages = (await page.pdf()).toString('latin1').match(/\/Type \/Page\b/g)!.length;
  expect(pages).toBeLessThan(5);
  const ground = 'getComputedStyle(document.documentElement).backgroundColor';
  await expect.poll(() => page.evaluate(ground)).toBe('rgb(18, 20, 23)');
  // The same as on the screen, once it is there.
  await page.getByLabel('Light or dark').selectOption('light');
  await page.locator('.timeline canvas').scrollIntoViewIfNeeded();
  await expect.poll(() => page.evaluate(`printed === ${picture}`)).toBe(true);
  await page.emulateMedia({ media: 'print' });
  expect(await page.locator('button:visible, input:visible, select:visible').count()).toBe(0);
});

test('a replay is slow enough to follow, and names its mode and the start of another conversation', async () => {
  const { page } = await openPage(browser(), served().url);
  onTestFinished(() => page.close());
  await until(page, "state.status.value.phase === 'recorded' && state.turns.value.length === 1");
  expect((await readState(page)).time.playing).toBe(true);
  expect(await page.locator('.mode-now').innerText()).toBe('Mode: Both ways');
  await page.evaluate('kvferry.actions.pauseTime(), kvferry.actions.seek(0)');
  const headline = () => page.locator('.story-headline').innerText();
  const told: string[] = [];
  const paces: number[] = [];
  for (let now = await readState(page); now.turns.length < 2; now = await readState(page)) {
    told.push(await headline());
    if (now.turns[0]?.result === null) paces.push(now.time.speed);
    await page.evaluate('kvferry.actions.stepTime()');
  }
  expect(paces.length).toBeGreaterThan(2);
  expect(Math.max(...paces)).toBeLessThan(0.5);
  expect(told.join('; ')).toMatch(/P computes the prompt.*P hands .* over to D.*D wrote \d+ tokens/);
  // Just before the second conversation's first turn.
  await page.evaluate(`(() => {
    const { actions, state } = kvferry;
    for (let at = state.time.value.atMs; state.turns.value.length > 0; at += 0.25) actions.seek(at);
  })()`);
  await expect.poll(headline).toBe('Another conversation begins: one way');
  expect(await page.locator('.mode-now').innerText()).toBe('Mode: One way');
});

test.each(lessons.map(({ number, title }) => [number, title] as const))(
  'lesson %i can be replayed from a link: %s',
  async (number, title) => {
    const { page, errors } = await openRecorded(number);
    const lesson = lessons[number - 1]!;
    await expect.poll(() => page.getByRole('region', { name: `Lesson ${number}: ${title}` }).count()).toBe(1);
    for (const i of lesson.tasks.keys()) {
      await walkStep(page, lesson, i);
      await until(page, '!state.time.value.playing');
    }
    // Its text refers to the recorded run.
    expect(await page.locator('.lesson-task').innerText()).toContain(
      TOLD[number] ?? lesson.tasks.at(-1)!.see,
    );
    // After Start over, no step counts as seen.
    await page.getByRole('button', { name: 'Start over' }).click();
    await expect.poll(() => page.locator('.lesson-dots [data-seen="true"]').count()).toBe(0);
    expect(await page.locator('.lesson-choices button').first().isEnabled()).toBe(true);
    expect(errors).toEqual([]);
    await page.close();
  },
  200_000,
);

/** Holds back matching requests. Returns a function that lets them continue. */
async function heldBack(page: Page, what: string): Promise<() => void> {
  let letGo = () => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  await page.route(what, async (route) => {
    await gate;
    await route.continue();
  });
  return letGo;
}

test('a lesson chosen before the shipped recording arrives is shown, and no engine is started', async () => {
  const { page, errors } = await openPage(browser(), 'about:blank');
  onTestFinished(() => page.close());
  const letGo = await heldBack(page, '**/recordings/shipped.json');
  const asked = page.waitForRequest('**/recordings/shipped.json');
  await page.goto(served().url);
  await asked;
  await page.locator('.lesson-menu summary').click();
  await page.getByRole('button', { name: `3. ${lessons[2]!.title}` }).click();
  await until(page, "state.status.value.phase === 'recorded'");
  const came = page.waitForResponse('**/recordings/shipped.json');
  letGo();
  await (await came).finished();
  const { replay, settings, status } = await readState(page);
  expect([replay!.title, settings.lesson, status.phase]).toEqual(['lesson 3', 3, 'recorded']);
  expect(page.workers()).toHaveLength(0);
  expect(errors).toEqual([]);
});

test('Reset fetches a recording again that failed to load, and no engine is started', async () => {
  const { page } = await openPage(browser(), 'about:blank');
  onTestFinished(() => page.close());
  await page.route('**/recordings/*', (route) => route.abort());
  await page.goto(served().url);
  await until(page, "state.status.value.phase === 'failed'");
  await page.unroute('**/recordings/*');
  await page.getByRole('button', { name: 'Reset' }).click();
  await until(page, "state.status.value.phase === 'recorded'");
  expect(page.workers()).toHaveLength(0);
});

test('an ended lesson stays ended when its recording is played again', async () => {
  const { page } = await openRecorded(3);
  onTestFinished(() => page.close());
  await page.getByRole('button', { name: 'End the lesson' }).click();
  await page.evaluate('kvferry.actions.seek(1e9), kvferry.actions.reset()');
  expect((await readState(page)).settings.lesson).toBeNull();
});

test('a lesson step shown before its recording arrives can still be seen', async () => {
  const { page } = await openPage(browser(), 'about:blank');
  onTestFinished(() => page.close());
  const showView = await heldBack(page, '**/assets/lesson-view*.js');
  const showRecording = await heldBack(page, '**/recordings/lesson-3.json');
  await page.goto(`${served().url}#lesson=3&speed=4/1`);
  await page.waitForFunction('globalThis.kvferry');
  // A slow network: more time passes than the recording's first turn took.
  await page.evaluate(
    '{ const now = performance.now.bind(performance); performance.now = () => now() + 60_000; }',
  );
  showView();
  await page.getByRole('region', { name: 'Lesson 3' }).waitFor();
  showRecording();
  await until(page, "state.status.value.phase === 'recorded'");
  await walkStep(page, lessons[2]!, 0);
});

test('a lesson can be done by keyboard, and the focus moves along', async () => {
  const { page } = await openRecorded(3);
  onTestFinished(() => page.close());
  const focused = () => page.evaluate<string>("document.activeElement.textContent ?? ''");
  await page.getByRole('button', { name: lessons[2]!.tasks[0].predict.choices[2]! }).focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  expect(await focused()).toBe(lessons[2]!.tasks[0].todo);
  await page.keyboard.press('Enter');
  await expect.poll(focused).toBe('Continue');
  await page.keyboard.press('Enter');
  await expect.poll(focused).toBe(lessons[2]!.question);
});

test('the focus follows to the next lesson, and to the menu when a lesson is chosen there or ends', async () => {
  const { page } = await openRecorded(3);
  onTestFinished(() => page.close());
  const focused = () =>
    page.evaluate<string>('document.activeElement.ariaLabel ?? document.activeElement.textContent');
  await page.getByRole('button', { name: 'Think' }).click();
  await page.getByRole('button', { name: `Next: ${lessons[3]!.title}` }).focus();
  await page.keyboard.press('Enter');
  await expect.poll(focused).toBe(`Lesson 4: ${lessons[3]!.title}`);
  await page.locator('.lesson-menu summary').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: lessons[4]!.title }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'Lesson 5' }).waitFor();
  expect(await focused()).toBe('Lessons');
  await page.getByRole('button', { name: 'End the lesson' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'Lesson 5' }).waitFor({ state: 'detached' });
  expect(await focused()).toBe('Lessons');
});

test('drawings stay sharp when the window moves to a screen with a finer resolution', async () => {
  const { page } = await openRecorded(3);
  onTestFinished(() => page.close());
  const sharpness = () =>
    page.evaluate<number>(
      "(({ width, clientWidth }) => width / clientWidth)(document.querySelector('.engines canvas'))",
    );
  await expect.poll(sharpness).toBe(1);
  const { width, height } = page.viewportSize()!;
  const screen = await page.context().newCDPSession(page);
  const metrics = { width, height, deviceScaleFactor: 2, mobile: false };
  // Playwright sets the same metrics in a session of its own: what the page then has is what was set last.
  const resolution = async () => {
    await screen.send('Emulation.setDeviceMetricsOverride', metrics);
    return await page.evaluate<number>('devicePixelRatio');
  };
  await expect.poll(resolution).toBe(2);
  await expect.poll(sharpness).toBe(2);
});

test('on a phone the note of a recorded lesson covers no block', async () => {
  const { page } = await openRecorded(6);
  onTestFinished(() => page.close());
  await page.setViewportSize({ width: 390, height: 844 });
  const lesson = lessons[5]!;
  for (const i of lesson.tasks.keys()) {
    await walkStep(page, lesson, i);
    await until(page, '!state.time.value.playing');
  }
  const note = (await page.locator('.note:visible').boundingBox())!;
  const blocks = (await page.locator('.engines .stage').boundingBox())!;
  expect(note.width).toBe(390);
  expect(blocks.y + blocks.height).toBeLessThanOrEqual(note.y);
});
