/** The choice of light or dark: kept in browser storage, and working without it. */
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);
const isDark = "document.documentElement.dataset.theme === 'dark'";

test('a chosen dark theme survives a reload until the system theme is chosen again', async () => {
  const { page, errors } = await openPage(browser(), `${served().url}#view=fleet`);
  onTestFinished(() => page.close());
  const choice = page.getByLabel('Light or dark');
  await choice.selectOption('dark');
  await page.reload();
  await expect.poll(() => choice.inputValue()).toBe('dark');
  expect(await page.evaluate(isDark)).toBe(true);
  await choice.selectOption('auto');
  await page.reload();
  await expect.poll(() => choice.inputValue()).toBe('auto');
  expect(await page.evaluate(isDark)).toBe(false);
  expect(errors).toEqual([]);
  // The page is dark before any of its scripts has loaded, so it does not flash.
  await choice.selectOption('dark');
  await page.route(/\.js$/, (route) => route.abort());
  await page.reload();
  expect(await page.evaluate('getComputedStyle(document.documentElement).backgroundColor')).toBe(
    'rgb(18, 20, 23)',
  );
});

test('without browser storage the page works, and a chosen dark theme lasts while it is open', async () => {
  const { page, errors } = await openPage(browser(), 'about:blank');
  onTestFinished(() => page.close());
  await page.addInitScript(`for (const name of ['localStorage', 'sessionStorage'])
    Object.defineProperty(globalThis, name, { get() { throw new DOMException('denied', 'SecurityError'); } });`);
  await page.goto(`${served().url}#view=fleet`);
  await page.getByLabel('Light or dark').selectOption('dark');
  expect(await page.evaluate(isDark)).toBe(true);
  await page.waitForFunction('globalThis.kvferryFleet?.nowMs.value > 0');
  expect(errors).toEqual([]);
});
