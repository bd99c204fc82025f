/** A page whose server can no longer be reached: it says what happened, and offers a reload. */
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { ask, openPage, openSettings, readState, servePage, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

test('code that cannot be fetched is reported in words, with a button that reloads', async () => {
  const { page } = await openPage(browser(), `${served().url}#model=nano&turns=0&maxTokens=8&speed=live`);
  onTestFinished(() => page.context().close());
  await untilReady(page);
  await page.context().setOffline(true);
  await openSettings(page);
  await page.getByRole('alert').getByText('could not be fetched: its server cannot be reached').waitFor();
  await page.keyboard.press('Escape');
  await page.evaluate('kvferry.actions.runRace()');
  const { notes, status } = await readState(page);
  expect(notes.at(-1)).toBe('The code for this could not be fetched: reload the page, and do it again.');
  expect(status.phase).toBe('ready');
  expect((await ask(page, 'Hello')).error).toBeNull();
  await page.context().setOffline(false);
  await page.getByRole('button', { name: 'Reload the page' }).click();
  await page.waitForFunction('globalThis.kvferry?.state.turns.value.length === 0');
  await untilReady(page);
  await openSettings(page);
  await page.getByLabel('Recompute threshold, tokens').waitFor();
});
