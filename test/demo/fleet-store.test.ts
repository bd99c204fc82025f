/** A simulated store in the fleet view, in a real browser. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
import { launchBrowser } from './browser.ts';
import { type OpenedPage, openPage, servePage, simulated } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(() => launchBrowser({ webgpu: false }));
const open = (hash: string) => openPage(browser(), `${served().url}${hash}`);

describe('a store in the fleet view', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    const store = 'fleet.store=64&fleet.storeFolder=512&fleet.storeEviction=lru';
    opened = await open(`#view=fleet&${store}&fleet.rate=20&fleet.system=500&fleet.pace=5`);
    await simulated(opened.page, 5);
  });
  afterAll(() => opened.page.close());

  test('is drawn between P and D with its folder, hit rate and traffic', async () => {
    const { page } = opened;
    const store = page.getByRole('region', { name: 'The store' });
    await expect
      .poll(() => store.innerText())
      .toMatch(/Memory\s+\d+ of 64 blocks.*Folder\s+\d+ of 512 blocks/s);
    await expect
      .poll(() => store.innerText())
      .toMatch(/Found \d+% of [\d,]+ requested blocks; [\d,]+ evicted/);
    await expect
      .poll(() => store.getByRole('row', { name: /^P/ }).innerText())
      .toMatch(/P\s+[1-9][\d,]*\s+[1-9]/);
    const left = (selector: string) =>
      page.locator(selector).evaluate((one) => one.getBoundingClientRect().x);
    const places = await Promise.all(
      ['prefill', 'store', 'decode'].map((role) => left(`[data-role=${role}]`)),
    );
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    // A transfer is being drawn.
    const drawn = `(() => {
      const canvas = document.querySelector('.fleet-flights canvas');
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return data.some((part) => part > 0);
    })()`;
    await expect.poll(() => page.evaluate(drawn), { interval: 100 }).toBe(true);
    await page.evaluate('kvferryFleet.hold(true)');
    expect(await seriousFaults(page)).toEqual([]);
    await page.evaluate('kvferryFleet.hold(false)');
  });

  test('appears in the path of a turn', async () => {
    const { page } = opened;
    const way = page.getByRole('region', { name: "One request's path" });
    // Not every turn uses the store.
    const lanesOfOne = async () => {
      await page.evaluate('kvferryFleet.follow(kvferryFleet.look.value.decisions[0].turnId)');
      await page.waitForFunction('kvferryFleet.path.value !== null');
      return (await way.locator('.fleet-lane-name').allInnerTexts()).join();
    };
    await expect.poll(lanesOfOne).toMatch(/store to P\d|P\d to store/);
    expect(await way.locator('[data-group=load], [data-group=save]').count()).toBeGreaterThan(1);
  });

  test('can be resized and removed', async () => {
    const { page, errors } = opened;
    await page.getByText(/a store, conversations of 4 turns/).click();
    await page.getByLabel('Store, blocks').fill('200');
    await page.getByLabel('Store, blocks').blur();
    const store = page.getByRole('region', { name: 'The store' });
    await expect.poll(() => store.innerText()).toContain('of 200 blocks');
    await page.getByLabel('Store folder, blocks').fill('0');
    await page.getByLabel('Store folder, blocks').blur();
    await expect.poll(() => store.innerText()).not.toContain('Folder');
    expect(new URL(page.url()).hash).toContain('fleet.store=200');
    await page.getByLabel('Store, blocks').fill('0');
    await page.getByLabel('Store, blocks').blur();
    await expect.poll(() => store.count()).toBe(0);
    expect(errors).toEqual([]);
  });
});
