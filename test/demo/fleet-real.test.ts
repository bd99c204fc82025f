/** Real engines in the fleet view in a real browser, and simulation instead without WebGPU. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import {
  enginesOf,
  type OpenedPage,
  openPage,
  readState,
  servePage,
  settingsOf,
  simulated,
  until,
  untilReady,
} from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(() => launchBrowser({ webgpu: false }));
const open = (hash: string) => openPage(browser(), `${served().url}${hash}`);

describe('the fleet view with WebGPU', () => {
  const withGpu = whileTesting(launchBrowser);

  describe("and the page's own engines", () => {
    test('does not start them while a simulated fleet is shown, and can hand its settings to them', async () => {
      const hash =
        '#view=fleet&model=nano&turns=0&fleet.prefill=1&fleet.decode=1&fleet.routing=least-request&fleet.mode=unidirectional';
      const { page, errors } = await openPage(withGpu(), `${served().url}${hash}`);
      await simulated(page, 0.5);
      expect(page.workers()).toHaveLength(1);
      await page.getByRole('button', { name: 'Run 1 P and 1 D for real' }).click();
      await untilReady(page);
      expect((await readState(page)).settings).toMatchObject({
        ...{ routing: 'least-request', mode: 'unidirectional' },
      });
      expect(page.workers()).toHaveLength(2);
      await page.getByRole('button', { name: 'Fleet', exact: true }).click();
      const measure = page.getByRole('button', { name: "Use this computer's times" });
      expect(await measure.isEnabled()).toBe(true);
      expect(errors).toEqual([]);
      // A failed measurement leaves the button enabled.
      await page.evaluate("kvferry.actions.measureCosts = () => Promise.reject(new Error('no'))");
      await measure.click();
      await expect.poll(() => measure.isEnabled()).toBe(true);
      await page.close();
    });

    /** Opens the fleet view and starts a measurement of this computer's times. */
    const measuring = async (): Promise<OpenedPage> => {
      const hash = '#view=fleet&model=nano&turns=1&maxTokens=8&speed=live&fleet.prefill=1&fleet.decode=1';
      const opened = await openPage(withGpu(), `${served().url}${hash}`);
      await simulated(opened.page, 0.5);
      await opened.page.getByRole('button', { name: "Use this computer's times" }).click();
      await until(opened.page, "state.status.value.message.startsWith('Measuring')");
      return opened;
    };

    test('starts them to measure times, and they serve turns once their view is opened', async () => {
      const { page, errors } = await measuring();
      expect(page.workers()).toHaveLength(3);
      expect(await page.getByRole('progressbar', { name: 'Measuring' }).isVisible()).toBe(true);
      await page.getByRole('button', { name: 'Stop measuring' }).click();
      await untilReady(page);
      expect(await page.getByRole('button', { name: "Use this computer's times" }).isEnabled()).toBe(true);
      expect((await readState(page)).turns).toEqual([]);
      await page.getByRole('button', { name: 'To P and D' }).click();
      await until(page, 'state.turns.value.some(({ result }) => result !== null)');
      expect(errors).toEqual([]);
      await page.close();
    });

    test('serves turns after the measurement if their view was opened during it', async () => {
      const { page, errors } = await measuring();
      await page.getByRole('button', { name: 'To P and D' }).click();
      await page.evaluate('kvferry.actions.stop()');
      await until(page, 'state.turns.value.some(({ result }) => result !== null)');
      expect(errors).toEqual([]);
      await page.close();
    });
  });

  describe('real engines', () => {
    let opened: OpenedPage;
    beforeAll(async () => {
      const load =
        'fleet.rate=3&fleet.turns=2&fleet.question=20&fleet.answer=6&fleet.system=64&fleet.think=0.2';
      const hash = `#view=fleet&model=nano&fleet.engines=real&fleet.prefill=1&fleet.decode=1&${load}`;
      opened = await openPage(withGpu(), `${served().url}${hash}`);
    });
    afterAll(() => opened.page.close());

    const answered = (page: Page, atLeast: number) =>
      page.waitForFunction(`globalThis.kvferryFleet?.look.value?.requests.answered >= ${atLeast}`);

    /** Waits until no request is in flight and every conversation has had its second turn. */
    const atRest = (page: Page) =>
      page.waitForFunction(`(() => {
        const { requests, decisions } = kvferryFleet.look.value;
        const last = new Map(decisions.map(({ conversationId, turn }) => [conversationId, turn]));
        return requests.underWay === 0 && [...last.values()].every((turn) => turn === 2);
      })()`);

    test('serve the same load with the same router, and their blocks can be inspected', async () => {
      const { page } = opened;
      await answered(page, 2);
      // Two engine workers and no simulation worker.
      expect(page.workers()).toHaveLength(2);
      expect(await enginesOf(page)).toEqual(['prefill-0 serving', 'decode-0 serving']);
      await expect
        .poll(() => page.locator('.fleet-clock').innerText())
        .toMatch(/measured.*All of it is real. Each engine runs nano/s);
      expect(await page.locator('.modelled:visible').count()).toBe(0);
      await page.getByRole('button', { name: 'Blocks of D0' }).click();
      const blocks = page.getByRole('region', { name: 'Blocks of D0' });
      await blocks.getByText('Blocks of D0 as a table').click();
      await expect.poll(() => blocks.getByRole('table').innerText()).toMatch(/copied from P/);
      await blocks.getByRole('application').focus();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('ArrowRight');
      await expect.poll(() => blocks.locator('.inspector').innerText()).toMatch(/D · block \d/);
    });

    test('become idle when the load is paused, and the path of each turn can be shown', async () => {
      const { page } = opened;
      await page.getByRole('button', { name: 'Pause the load' }).click();
      await atRest(page);
      await page.locator('.fleet-turn').last().press('Enter');
      const way = page.getByRole('region', { name: "One request's path" });
      await expect.poll(() => way.innerText()).toMatch(/First token after.*measured/s);
      await expect
        .poll(() => way.locator('.fleet-lane-name').allInnerTexts())
        .toEqual(expect.arrayContaining(['router', 'P0 gpu', 'D0', 'P0 to D0']));
      expect(await page.evaluate('kvferryFleet.look.value.latency.some(({ p99Ms }) => p99Ms > 0)')).toBe(
        true,
      );
    });

    test('can be killed, replaced and added without a failed request', async () => {
      const { page } = opened;
      await page.getByRole('button', { name: 'Kill D0' }).click();
      await expect.poll(() => enginesOf(page)).toContain('decode-0 ended');
      await page.getByRole('button', { name: 'Replace the dead engines' }).click();
      await expect.poll(() => enginesOf(page)).toContain('decode-0.2 serving');
      const more = page.getByRole('button', { name: 'Start one more P' });
      await more.click();
      await expect.poll(() => enginesOf(page)).toContain('prefill-1 serving');
      // The maximum is reached.
      await expect.poll(() => more.isDisabled()).toBe(true);
      await page.getByLabel('Routing').selectOption('least-request');
      const before = await page.evaluate<number>('kvferryFleet.look.value.requests.answered');
      await page.getByRole('button', { name: 'Resume' }).click();
      await answered(page, before + 2);
      await expect
        .poll(() => page.getByRole('region', { name: 'The router' }).innerText())
        .toContain('by least-request');
      expect(await page.evaluate('kvferryFleet.look.value.requests.failed')).toBe(0);
    });

    test('end when simulated engines are chosen', async () => {
      const { page, errors } = opened;
      await page.getByRole('button', { name: 'simulated', exact: true }).click();
      await simulated(page, 0.3);
      await expect.poll(() => page.workers().length).toBe(1);
      expect(new URL(page.url()).hash).not.toContain('engines');
      expect(errors).toEqual([]);
    });
  });
});

test('without WebGPU the fleet is simulated with the reason shown, and too many real engines are reported', async () => {
  const { page, errors } = await open('#view=fleet&fleet.engines=real&fleet.prefill=8');
  await simulated(page, 0.1);
  await expect
    .poll(() => page.getByRole('alert').innerText())
    .toMatch(/^No real engines: This browser .*simulated instead/s);
  expect(await page.getByRole('button', { name: 'real', exact: true }).isDisabled()).toBe(true);
  await expect.poll(() => page.locator('.fleet-kind').innerText()).toContain('cannot run here');
  await expect.poll(() => page.locator('.fleet-real').innerText()).toContain('cannot run here either');
  const notes = page.getByRole('log', { name: 'Notes of the fleet' });
  await expect.poll(() => notes.innerText()).toContain('prefill is 8: for real engines');
  expect(await settingsOf(page)).toMatchObject({ engines: 'simulated', prefill: 2 });
  expect(errors).toEqual([]);
  await page.close();
});
