/** A page whose server can no longer be reached: it says what happened, and offers a reload. */
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { ask, openPage, openSettings, readState, servePage, until, untilReady } from './page.ts';

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

test('an engine whose script is gone says so, with the same button', async () => {
  const { page } = await openPage(browser(), `${served().url}#model=nano&turns=0&maxTokens=8&speed=live`);
  onTestFinished(() => page.context().close());
  await untilReady(page);
  // A newer version of the page has replaced the files.
  await page.route('**/assets/*', (route) => route.fulfill({ status: 404 }));
  await page.evaluate('kvferry.actions.configure({ decode: 2 })');
  const reload = page.getByRole('button', { name: 'Reload the page' });
  await reload.waitFor();
  expect((await readState(page)).notes.at(-1)).toBe(
    'engine decode-1 ended: its script could not be loaded: reload the page',
  );
  expect((await ask(page, 'Hello')).error).toBeNull();
});

test('a simulation or an engine whose script is there again starts, and no reload is offered any more', async () => {
  const { page } = await openPage(browser(), `${served().url}#model=nano&turns=0&speed=live`);
  onTestFinished(() => page.context().close());
  await untilReady(page);
  const reload = page.getByRole('button', { name: 'Reload the page' });
  await page.route('**/assets/*-browser-*', (route) => route.fulfill({ status: 404 }));
  await page.evaluate('kvferry.actions.configure({ decode: 2 })');
  await reload.waitFor();
  await page.getByRole('button', { name: 'Fleet' }).click();
  await page.getByText('The simulation stopped: its script could not be loaded').waitFor();
  await page.unrouteAll();
  await page.getByRole('alert').getByRole('button', { name: 'Start over' }).click();
  await page.waitForFunction('globalThis.kvferryFleet?.look.value');
  expect(await reload.count()).toBe(1);
  await page.evaluate('kvferry.actions.configure({ decode: 2 })');
  await reload.waitFor({ state: 'detached' });
});

test('code of fleets and of engines that is gone is reported in words', async () => {
  const { page } = await openPage(browser(), `${served().url}#view=fleet`);
  onTestFinished(() => page.context().close());
  await page.waitForFunction('globalThis.kvferryFleet?.look.value');
  await page.route('**/assets/*', (route) => route.fulfill({ status: 404 }));
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  const reload = page.getByRole('button', { name: 'Reload the page' });
  await page.getByText('The comparison stopped: its script could not be loaded: reload the page.').waitFor();
  // The fleet's own thread, whose script had come before, goes on telling its news.
  const now = await page.evaluate<number>('kvferryFleet.nowMs.value');
  await page.waitForFunction(`kvferryFleet.nowMs.value > ${now} + 500`);
  expect(await reload.count()).toBe(1);
  await page.getByRole('button', { name: 'To P and D' }).click();
  await until(page, "state.status.value.phase === 'failed'");
  expect((await readState(page)).status.message).toBe(
    'The code for this could not be fetched: reload the page, and do it again.',
  );
});

test('a page whose first code is gone, or too new for the browser, says so and is not empty', async () => {
  const page = await browser().newPage();
  onTestFinished(() => page.context().close());
  for (const answer of [{ status: 404 }, { contentType: 'text/javascript', body: 'class { new syntax }' }]) {
    await page.route('**/assets/index-*.js', (route) => route.fulfill(answer));
    await page.goto(served().url);
    expect(await page.locator('body').innerText()).toMatch(/^The code of this page could not be loaded, or/);
    await page.unrouteAll();
  }
  await page.reload();
  await page.waitForFunction('globalThis.kvferry');
  expect(await page.locator('body').innerText()).not.toContain('could not be loaded');
});
