import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
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
} from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(() => launchBrowser({ webgpu: false }));
const open = (hash: string) => openPage(browser(), `${served().url}${hash}`);

/** Counts the timed drawings of the pools. */
const COUNT_DRAWN = `{
  globalThis.poolsDrawn = 0;
  new PerformanceObserver((list) => {
    poolsDrawn += list.getEntriesByName('draw fleet pools').length;
  }).observe({ type: 'measure' });
}`;

describe('a fleet opened from a link', () => {
  let opened: OpenedPage;
  let firstNote: string;
  beforeAll(async () => {
    opened = await open(
      '#view=fleet&fleet.prefill=2&fleet.decode=3&fleet.rate=20&fleet.seed=7&fleet.pace=5&fleet.startUp=1&fleet.seed=x&fleet.rooting=llm-d',
    );
    // Read at once: it stays only as long as it takes to read.
    firstNote = await opened.page.getByRole('log', { name: 'Notes of the fleet' }).locator('> *').innerText();
    await opened.page.evaluate(COUNT_DRAWN);
    await simulated(opened.page, 6);
  });
  afterAll(() => opened.page.close());

  test('runs in one worker without engines, and invalid settings in the address are reported', async () => {
    const { page } = opened;
    expect(page.workers()).toHaveLength(1);
    expect(await settingsOf(page)).toMatchObject({ prefill: 2, decode: 3, rate: 20, seed: 7 });
    expect(firstNote).toContain("'fleet.rooting', which is not a setting: did you mean fleet.routing?");
    expect(firstNote).toContain("fleet.seed to 'x'");
    expect(await enginesOf(page)).toHaveLength(5);
    await expect.poll(() => page.locator('.fleet-tile').count()).toBe(5);
    await expect
      .poll(() => page.locator('.fleet-clock').innerText())
      .toMatch(/modelled.*not measured: Dynamo mocker's/s);
  });

  test('shows its pools and TTFT as drawings and as tables', async () => {
    const { page } = opened;
    const painted = await page.locator('.fleet-tile canvas').evaluateAll((all) =>
      all.map((canvas) => {
        const { width, height } = canvas as HTMLCanvasElement;
        const { data } = (canvas as HTMLCanvasElement).getContext('2d')!.getImageData(0, 0, width, height);
        return new Set(new Uint32Array(data.buffer)).size > 2;
      }),
    );
    expect(painted.filter(Boolean).length).toBeGreaterThan(3);
    await page.getByText('Engines as a table').click();
    await expect
      .poll(() => page.getByRole('table').filter({ hasText: 'pool in use' }).innerText())
      .toMatch(/P1\s.*256|P1.*255/);
    await page.getByText('Chart as a table').click();
    await expect
      .poll(() => page.getByRole('table').filter({ hasText: 'answers' }).innerText())
      .toMatch(/\d ms/);
  });

  test('can change its routing policy while it runs, and shows the scores of the engines', async () => {
    const { page } = opened;
    await page.getByLabel('Routing').selectOption('least-request');
    await expect
      .poll(() => page.getByRole('region', { name: 'The router' }).innerText())
      .toMatch(/by least-request.*score: least wins.*P0/s);
    expect(new URL(page.url()).hash).toContain('fleet.routing=least-request');
  });

  test('takes its load from the arrow keys, and draws the path of a chosen turn over all engines', async () => {
    const { page } = opened;
    await page.getByRole('slider').focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    expect(await settingsOf(page)).toMatchObject({ rate: 22 });
    await page.getByRole('button', { name: 'Pause' }).click();
    await expect.poll(() => page.locator('.fleet-turn').count()).toBeGreaterThan(2);
    const turn = page.locator('.fleet-turn').last();
    // The list may still change after the pause, and take the focused row away.
    await expect
      .poll(async () => {
        await turn.press('Enter');
        return turn.getAttribute('aria-pressed');
      })
      .toBe('true');
    await page.getByRole('button', { name: 'Resume' }).click();
    const way = page.getByRole('region', { name: "One request's path" });
    await expect.poll(() => way.innerText()).toContain('First token after');
    await expect.poll(() => way.locator('.fleet-bar').count()).toBeGreaterThan(2);
    // The scale reaches to the first token, or to the last.
    const scale = async () => {
      const [, end] = (await way.locator('.fleet-scale').innerText()).split(/\n/);
      return Number.parseFloat(end!.replace(',', ''));
    };
    const [first, last] = await page.evaluate<[number, number]>(
      '[kvferryFleet.path.value.decision.ttftMs, kvferryFleet.path.value.latencyMs]',
    );
    expect(first).toBeGreaterThan(0);
    expect(await scale()).toBeLessThan(1.2 * first);
    await way.getByRole('button', { name: 'To the last token' }).click();
    await expect.poll(scale).toBeGreaterThan(0.9 * last);
    await way.getByText('The path as a table').click();
    await expect.poll(() => way.getByRole('table').innerText()).toContain('forward');
  });

  test('can have engines killed, replaced, added and drained', async () => {
    const { page } = opened;
    await page.getByRole('button', { name: 'Kill D2' }).click();
    await expect.poll(() => enginesOf(page)).toContain('decode-2 ended');
    await page.getByRole('button', { name: 'Replace the dead engines' }).click();
    await expect.poll(() => enginesOf(page)).toContain('decode-2.2 serving');
    await page.getByRole('button', { name: 'Start one more P' }).click();
    await expect.poll(() => enginesOf(page)).toContain('prefill-2 serving');
    await page.getByRole('button', { name: 'Drain one D' }).click();
    await expect.poll(async () => (await enginesOf(page)).join()).toMatch(/decode-\S+ leaving/);
    expect(await page.evaluate('kvferryFleet.look.value.requests.failed')).toBe(0);
  });

  test('restarts when its composition changes, and keeps its settings in the address', async () => {
    const { page } = opened;
    await page.getByText(/conversations of 4 turns/).click();
    await page.getByLabel('P at the start').fill('8');
    await page.getByLabel('P at the start').press('Enter');
    await page.getByLabel('P at the start').blur();
    await expect.poll(async () => (await enginesOf(page)).length).toBe(11);
    const more = page.getByRole('button', { name: /start one more/ });
    await expect.poll(() => more.first().isDisabled()).toBe(true);
    await expect.poll(() => more.last().isEnabled()).toBe(true);
    // More than its pools hold: this is reported, and the fleet continues.
    await page.getByLabel('Question, tokens').fill('1000');
    await page.getByLabel('Answer, tokens').fill('500');
    await page.getByLabel('Answer, tokens').blur();
    const notes = page.getByRole('log', { name: 'Notes of the fleet' });
    await expect.poll(() => notes.innerText()).toContain('256 blocks hold 16320');
    expect(await settingsOf(page)).toMatchObject({ prefill: 8, question: 1000, answer: 64 });
    const { page: second } = await openPage(browser(), page.url());
    await second.waitForFunction('globalThis.kvferryFleet');
    expect(await settingsOf(second)).toEqual(await settingsOf(page));
    await second.close();
  });

  test('has no serious accessibility violation, and its drawing is timed', async () => {
    const { page, errors } = opened;
    // With one tile open.
    await page.getByRole('button', { name: 'Blocks of P0' }).click();
    const blocks = page.getByRole('region', { name: 'Blocks of P0' });
    await blocks.getByText('Blocks of P0 as a table').click();
    await expect.poll(() => blocks.getByRole('table').innerText()).toContain('turn 1');
    // Pause it: while it runs, everything is redrawn during the check.
    await page.evaluate('kvferryFleet.hold(true)');
    expect(await seriousFaults(page)).toEqual([]);
    expect(await page.evaluate('poolsDrawn')).toBeGreaterThan(10);
    expect(errors).toEqual([]);
  });
});

test('the exercise compares three routers on one load in a chart and a table', async () => {
  const { page, errors } = await open('#view=fleet&fleet.rate=20&fleet.seconds=5&fleet.third=random');
  const exercise = page.getByRole('region', { name: 'The same load, three routers' });
  await exercise.getByRole('button', { name: 'Compare' }).click();
  const rows = exercise.locator('.fleet-compared tbody tr');
  await expect.poll(() => rows.count()).toBe(3);
  await expect
    .poll(() => rows.locator('th').allInnerTexts())
    .toEqual(['round-robin', 'least-request', 'random']);
  const requests = await rows.locator('td:nth-child(4)').allInnerTexts();
  expect(new Set(requests).size).toBe(1);
  expect(Number(requests[0])).toBeGreaterThan(30);
  // The chart's data as a table, for visitors who cannot see the chart.
  await exercise.getByText('Chart as a table').click();
  const points = exercise.locator('.as-table-body');
  const lines = () => points.locator('thead th').allInnerTexts();
  await expect.poll(lines).toHaveLength(7);
  expect((await lines()).slice(0, 3)).toEqual(['at', 'round-robin p99', 'round-robin p50']);
  const cells = await points.locator('tbody td').allInnerTexts();
  expect(cells.filter((cell) => / m?s$/.test(cell)).length).toBeGreaterThan(6);
  await expect.poll(() => exercise.locator('canvas').count()).toBe(1);
  const seconds = exercise.getByLabel('Seconds of load');
  await seconds.fill('');
  await seconds.blur();
  expect(await seconds.inputValue()).toBe('5');
  // With fewer lines, the same chart is reused.
  await exercise.getByLabel('third router').selectOption('least-request');
  await exercise.getByRole('button', { name: 'Compare' }).click();
  await expect.poll(() => rows.count()).toBe(2);
  await expect.poll(() => exercise.locator('canvas').count()).toBe(1);
  // Only the worker of the watched fleet is left.
  await expect.poll(() => page.workers().length).toBe(1);
  expect(errors).toEqual([]);
  await page.close();
});

describe('an address with an impossible fleet', () => {
  // Conversations with more tokens than a pool can hold.
  const impossible = 'fleet.turns=12&fleet.question=1000&fleet.answer=500';
  const possible = { turns: 4, question: 200, answer: 64 };

  test('is reported and ignored at the start', async () => {
    const { page, errors } = await open(`#view=fleet&${impossible}`);
    const notes = page.getByRole('log', { name: 'Notes of the fleet' });
    await expect.poll(() => notes.innerText()).toMatch(/address asks for an impossible fleet: .*256 blocks/);
    await simulated(page, 0.5);
    expect(await settingsOf(page)).toMatchObject(possible);
    expect(errors).toEqual([]);
    await page.close();
  });

  test('is reported and leaves the running fleet unchanged when the address changes', async () => {
    const { page, errors } = await open('#view=fleet&fleet.rate=9');
    await simulated(page, 1);
    await page.evaluate(`location.hash = '#view=fleet&fleet.prefill=5&${impossible}'`);
    const notes = page.getByRole('log', { name: 'Notes of the fleet' });
    await expect.poll(() => notes.innerText()).toMatch(/address asks for an impossible fleet: .*256 blocks/);
    expect(await settingsOf(page)).toMatchObject({ ...possible, rate: 9, prefill: 2 });
    // The fleet was not restarted.
    expect(await page.evaluate('kvferryFleet.nowMs.value')).toBeGreaterThanOrEqual(1000);
    expect(new URL(page.url()).hash).toBe('#view=fleet&fleet.rate=9');
    expect(await page.getByRole('alert').count()).toBe(0);
    expect(errors).toEqual([]);
    await page.close();
  });
});

test('an address that asks for measured times of another page gets a note and modelled times', async () => {
  const { page } = await open('#view=fleet&fleet.costs=measured');
  const notes = page.getByRole('log', { name: 'Notes of the fleet' });
  await expect.poll(() => notes.innerText()).toContain('measured on another page');
  expect(await settingsOf(page)).toMatchObject({ costs: 'dynamo-mocker' });
  await page.close();
});

test('a simulation worker that cannot be loaded is reported, and Start over works', async () => {
  const page = await browser().newPage();
  await page.route(/fleet-browser/, (route) => route.abort());
  await page.goto(`${served().url}#view=fleet`);
  const alert = page.getByRole('alert').filter({ hasText: 'The simulation stopped' });
  await alert.waitFor();
  await page.getByRole('button', { name: 'Reload the page' }).waitFor();
  await page.unroute(/fleet-browser/);
  await alert.getByRole('button', { name: 'Start over' }).click();
  await simulated(page, 0.1);
  expect(await alert.count()).toBe(0);
  await page.close();
});

test('buttons and browser history lead from P and D to the fleet and back, keeping the settings', async () => {
  const { page, errors } = await open('#speed=live');
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await until(page, "state.status.value.phase === 'recorded'");
  expect(asked.filter((url) => /fleet/.test(url))).toEqual([]);
  await page.getByRole('button', { name: 'Fleet', exact: true }).click();
  await simulated(page, 0.5);
  expect(new URL(page.url()).hash).toBe('#speed=live&view=fleet');
  await page.goBack();
  await page.getByRole('region', { name: 'Conversation' }).waitFor();
  expect((await readState(page)).notes).toEqual([]);
  await page.goForward();
  await simulated(page, 0.5);
  await page.evaluate('kvferryFleet.set({ rate: 33 })');
  await page.getByRole('button', { name: 'To P and D' }).click();
  await page.getByRole('region', { name: 'Conversation' }).waitFor();
  await expect.poll(() => page.workers().length).toBe(0);
  expect(new URL(page.url()).hash).not.toContain('fleet');
  expect((await readState(page)).status.phase).toBe('recorded');
  await page.getByRole('button', { name: 'Fleet', exact: true }).click();
  await expect.poll(() => new URL(page.url()).hash).toContain('fleet.rate=33');
  expect(errors).toEqual([]);
  await page.close();
});

test('with reduced motion the fleet is updated about once a second', async () => {
  const { page } = await open('#view=fleet');
  await simulated(page, 0.3);
  const looks = (forMs: number) =>
    page.evaluate<number>(`new Promise((resolve) => {
      const seen = new Set();
      const timer = setInterval(() => seen.add(kvferryFleet.nowMs.value), 20);
      setTimeout(() => { clearInterval(timer); resolve(seen.size); }, ${forMs});
    })`);
  await expect.poll(() => looks(600)).toBeGreaterThan(3);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await expect.poll(() => looks(600)).toBeLessThanOrEqual(2);
  await page.close();
});

test('in projector mode no fleet text is below 18 pixels and nothing is wider than the page', async () => {
  const { page } = await open('#view=fleet&projector=true');
  await simulated(page, 2);
  const small = await page.evaluate<string[]>(`[...document.querySelectorAll('#fleet *')]
    .filter((element) => element.checkVisibility() && !element.closest('.visually-hidden') && element.innerText
      && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
    .filter((element) => parseFloat(getComputedStyle(element).fontSize) < 18)
    .map((element) => element.className + ' ' + element.innerText)`);
  expect(small).toEqual([]);
  const wide = () => page.evaluate('document.documentElement.scrollWidth - innerWidth');
  expect(await wide()).toBeLessThanOrEqual(0);
  // On a phone, with and without projector mode.
  await page.setViewportSize({ width: 390, height: 844 });
  await expect.poll(wide).toBeLessThanOrEqual(0);
  await page.evaluate('kvferry.actions.configure({ projector: false })');
  await expect.poll(wide).toBeLessThanOrEqual(0);
  await page.close();
});
