/** What a screen reader hears without asking: each result once, and not every step of a measurement. */
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { ask, openPage, servePage, simulated, until, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

/** Notes the new text of every live region in `heard`. */
const LISTEN = `{
  globalThis.heard = [];
  const regionOf = (node) => (node.nodeType === 1 ? node : node.parentElement)?.closest('[aria-live=polite], [role=status], [role=log]');
  new MutationObserver((changes) => {
    for (const region of new Set(changes.map(({ target }) => regionOf(target)).filter(Boolean)))
      if (heard.at(-1) !== region.textContent) heard.push(region.textContent);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}`;

async function opened(hash: string): Promise<Page> {
  const { page } = await openPage(browser(), `${served().url}${hash}`);
  onTestFinished(() => page.close());
  return page;
}

const heard = (page: Page) => page.evaluate<string[]>('heard');

test('of a race the result is heard, and not each of its copies', async () => {
  const page = await opened('#model=nano&turns=0&maxTokens=8&threshold=0&speed=live');
  await untilReady(page);
  for (const question of ['Hello there, who are you?', 'And what is this?']) await ask(page, question);
  await page.evaluate(LISTEN);
  await page.evaluate('kvferry.actions.runRace()');
  await untilReady(page);
  const headline = await page.locator('.story-headline').innerText();
  await expect.poll(() => heard(page)).toContain(headline);
  // The conversation's KV may be copied again afterwards.
  expect((await heard(page)).filter((text) => text.includes(' copied ')).length).toBeLessThan(2);
});

test('of a sweep the result is heard when all is measured', async () => {
  const page = await opened('#model=nano&turns=0');
  await page.evaluate(LISTEN);
  await untilReady(page);
  await page.getByLabel('Load recording').setInputFiles('demo/recordings/shipped.json');
  await until(page, 'state.replay.value !== null');
  await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
  const verdict = page.locator('.crossover-verdict');
  await expect.poll(() => verdict.innerText()).toMatch(/^Pulling/);
  await expect.poll(() => heard(page)).toContain(await verdict.innerText());
  // While it measures, the sentence changes with each point, and is only shown.
  const told = page.locator('.crossover [aria-live]');
  await page.evaluate('kvferry.state.crossover.value = { ...kvferry.state.crossover.value, running: true }');
  await expect.poll(() => told.textContent()).toBe('');
  expect(await verdict.innerText()).toMatch(/^Pulling/);
});

test('that the link was copied is heard', async () => {
  const page = await opened('#turns=0&view=fleet');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.evaluate(LISTEN);
  await page.getByRole('button', { name: 'Copy link' }).press('Enter');
  await expect.poll(() => heard(page)).toContain('Copied');
});

test('of a fleet, engines that came or went are heard, and no turns', async () => {
  const page = await opened('#view=fleet&fleet.pace=20&fleet.rate=20&fleet.seconds=5');
  await simulated(page, 5);
  await page.evaluate(LISTEN);
  await page.getByRole('button', { name: 'Kill D0' }).press('Enter');
  await page.getByRole('button', { name: '+ P: start one more P' }).press('Enter');
  await expect.poll(async () => (await heard(page)).at(-1)).toMatch(/D0 died .*P\d joined/);
  expect((await heard(page)).length).toBeLessThan(5);
});

test('of a fleet, blocks that are gone to, a chosen turn and a comparison are heard', async () => {
  const page = await opened('#view=fleet&fleet.pace=20&fleet.rate=20&fleet.seconds=5');
  await simulated(page, 5);
  await page.getByRole('button', { name: 'Blocks of D0' }).press('Enter');
  await page.waitForFunction('kvferryFleet.look.value.opened !== null');
  await page.evaluate(LISTEN);
  await page.getByRole('application').press('ArrowRight');
  await page.getByRole('application').press('ArrowRight');
  await expect.poll(async () => (await heard(page)).at(-1)).toMatch(/^Block 2 of D: /);
  await page.locator('.fleet-turn').last().press('Enter');
  await expect
    .poll(async () => (await heard(page)).at(-1))
    .toMatch(/ → D\d\. First token after .* modelled\.$/);
  await page.getByRole('button', { name: 'Compare' }).press('Enter');
  await expect
    .poll(async () => (await heard(page)).at(-1))
    .toMatch(/^round-robin: p50 .* ms, p99 .* ms\. least-request: p50/);
  expect((await heard(page)).length).toBeLessThan(8);
});
