/** The keyboard's focus stays on the page: controls turn off while they work, turn into others, and leave. */
import path from 'node:path';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, simulated, until, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

async function opened(hash: string): Promise<Page> {
  const { page } = await openPage(browser(), `${served().url}${hash}`);
  onTestFinished(() => page.close());
  return page;
}

/** The name of the focused element, or its text. */
const focused = (page: Page) =>
  page.evaluate<string>('document.activeElement.ariaLabel ?? document.activeElement.textContent');

async function press(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).focus();
  await page.keyboard.press('Enter');
}

test('a button that is off while its work runs, or that becomes another, keeps the focus', async () => {
  const page = await opened('#turns=0&speed=live');
  await untilReady(page);
  await press(page, 'Step');
  await until(page, "state.status.value.phase === 'busy'");
  // It is off.
  await page.keyboard.press('Enter');
  await untilReady(page);
  expect(await page.evaluate('kvferry.state.turns.value.length')).toBe(1);
  expect(await focused(page)).toBe('Step');
  await press(page, 'Kill P');
  await expect.poll(() => focused(page)).toBe('Restart P');
  await page.keyboard.press('Enter');
  await until(page, 'state.drawn.prefill.value.alive.value');
  await untilReady(page);
  expect(await focused(page)).toBe('Kill P');
});

test('a double click presses one button, not also the one that takes its place', async () => {
  const page = await opened('#turns=0&speed=live');
  await untilReady(page);
  await page.getByLabel('Your message').fill('Tell me a story about Gus and a bear.');
  await page.getByRole('button', { name: 'Ask', exact: true }).dblclick({ delay: 60 });
  await untilReady(page);
  await page.waitForFunction('kvferry.state.turns.value[0]?.result');
  await page.evaluate(
    "Object.assign(globalThis, { restarts: 0 }), kvferry.state.status.subscribe(({ phase }) => { if (phase === 'starting') restarts++; })",
  );
  await page.getByRole('button', { name: 'Kill P', exact: true }).dblclick({ delay: 60 });
  await until(page, '!state.drawn.prefill.value.alive.value');
  expect(await page.evaluate('restarts')).toBe(0);
  await page.getByRole('button', { name: 'Restart P' }).click();
  await until(page, 'state.drawn.prefill.value.alive.value');
  expect(await page.evaluate('restarts')).toBeGreaterThan(0);
});

test('with a recording gone, the focus is on what is shown in its place', async () => {
  const page = await opened('#turns=0&speed=live');
  await untilReady(page);
  await page
    .getByLabel('Load recording')
    .setInputFiles(path.join(import.meta.dirname, '../../demo/recordings/lesson-3.json'));
  await until(page, 'state.replay.value !== null');
  await press(page, 'Back to the engines');
  await until(page, 'state.replay.value === null');
  await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('MAIN');
});

test('in a fleet, the focus stays near a control that leaves, and on a turn of the router', async () => {
  const page = await opened('#view=fleet&fleet.pace=20');
  await simulated(page, 5);
  await press(page, 'Blocks of P0');
  await press(page, 'Close');
  expect(await focused(page)).toBe('Blocks of P0');
  await press(page, 'Kill P0');
  await expect.poll(() => focused(page)).toMatch(/^P0.*killed/);

  const turn = page.locator('.fleet-turn').first();
  await turn.focus();
  const name = await focused(page);
  await page.keyboard.press('Enter');
  // Some seconds in which the list of turns would be another one.
  await simulated(page, 80);
  await page.waitForFunction('kvferryFleet.path.value !== null');
  expect(await focused(page)).toBe(name);
  await press(page, 'Clear');
  await expect.poll(() => focused(page)).toBe("One request's path");
});
