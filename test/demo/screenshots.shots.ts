/**
 * `npm run screenshots`: the main view, each lesson before and after its first step, the recorded run, fleets and projector
 * mode, at 1280×800, 1440×900 and phone size, light and dark. `VIEWS=main,lesson-1`: only these views.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { test } from 'vitest';
import { lessons } from '../../demo/src/lessons/index.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, simulated, until, untilReady, walkStep } from './page.ts';

const folder = path.join(import.meta.dirname, '..', '..', 'screenshots');
const ONLY = (process.env.VIEWS ?? '').split(',').filter(Boolean);
const SIZES = [
  { width: 1280, height: 800 },
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
];
const SCHEMES = ['light', 'dark'] as const;

interface View {
  name: string;
  hash: string;
  webgpu?: false;
  /** The view is a fleet; take it after this many simulated seconds. */
  fleet?: number;
  /** Brings the page into the pictured state. */
  go?: (page: Page) => Promise<void>;
}

const views: View[] = [
  { name: 'main', hash: '#turns=3&speed=live' },
  {
    name: 'raced',
    hash: '#turns=3&speed=live',
    go: async (page) => {
      await page.evaluate('kvferry.actions.runRace()');
      await untilReady(page);
      await page.locator('.chat-answer .word').nth(20).hover();
    },
  },
  { name: 'store', hash: '#turns=3&speed=live&store=1MiB&storeDir=kv&offloadPromptOnly=false' },
  { name: 'projector', hash: '#turns=3&speed=live&projector=true' },
  { name: 'projector-lesson', hash: '#lesson=5&projector=true&speed=live', go: walked(5) },
  { name: 'fleet', hash: '#view=fleet&fleet.pace=20&fleet.rate=30', fleet: 40, go: chosenAndCompared },
  {
    name: 'fleet-8',
    hash: '#view=fleet&fleet.pace=20&fleet.prefill=8&fleet.decode=8&fleet.rate=40&fleet.routing=dynamo',
    fleet: 10,
  },
  {
    name: 'fleet-store',
    hash: '#view=fleet&fleet.store=200&fleet.storeFolder=1000&fleet.rate=20&fleet.system=500',
    fleet: 15,
    go: openedWith('P0'),
  },
  {
    name: 'fleet-scaled',
    hash: '#view=fleet&fleet.pace=20&fleet.rate=60&fleet.autoscale=k8s-hpa&fleet.startUp=5',
    fleet: 90,
  },
  {
    name: 'fleet-real',
    hash: `#view=fleet&model=nano&fleet.engines=real&fleet.rate=3&fleet.turns=3&fleet.question=80&fleet.answer=16&fleet.store=64`,
    fleet: 12,
    go: openedWith('D0'),
  },
  {
    name: 'projector-fleet-store',
    hash: '#view=fleet&fleet.store=200&fleet.storeFolder=1000&fleet.rate=20&fleet.system=500&projector=true',
    fleet: 15,
  },
  {
    name: 'projector-fleet',
    hash: '#view=fleet&fleet.pace=20&projector=true',
    fleet: 20,
    go: chosenAndCompared,
  },
  { name: 'recorded', hash: '', webgpu: false },
  { name: 'recorded-lesson', hash: '#lesson=1&speed=live', webgpu: false, go: walked(1) },
  ...lessons.flatMap(({ number }) => [
    { name: `lesson-${number}`, hash: `#lesson=${number}&speed=live` },
    { name: `lesson-${number}-seen`, hash: `#lesson=${number}&speed=live`, go: walked(number) },
  ]),
];

function walked(number: number) {
  return async (page: Page) => {
    await walkStep(page, lessons[number - 1]!, 0);
    await until(
      page,
      "state.status.value.phase === 'ready' || (state.replay.value && !state.time.value.playing)",
    );
  };
}

/** Opens the tile of the engine `name`. */
function openedWith(name: string) {
  return async (page: Page) => {
    await page.getByRole('button', { name: `Blocks of ${name}` }).click();
    const blocks = page.getByRole('region', { name: `Blocks of ${name}` }).getByRole('application');
    await blocks.hover({ position: { x: 30, y: 20 } });
    await page.getByRole('button', { name: 'Pause' }).click();
  };
}

async function chosenAndCompared(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Kill P1' }).click();
  await page.getByLabel('Seconds of load').fill('20');
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.waitForFunction('kvferryFleet.exercise.comparison.value !== null', null, { timeout: 120_000 });
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.fleet-turn').last().click();
  await page.waitForFunction('kvferryFleet.path.value !== null');
}

/** Scrolls to every panel, as a canvas is drawn only when it becomes visible. */
async function scrollThrough(page: Page): Promise<void> {
  const { x, y } = await page.evaluate<{ x: number; y: number }>('({ x: scrollX, y: scrollY })');
  for (const panel of await page.locator('.panel').all()) {
    await panel.evaluate((element) => element.scrollIntoView({ behavior: 'instant' }));
    await page.waitForTimeout(150);
  }
  await page.evaluate(`scrollTo({ left: ${x}, top: ${y}, behavior: 'instant' })`);
}

test('screenshots', async () => {
  mkdirSync(folder, { recursive: true });
  const served = await servePage();
  const browsers = { with: await launchBrowser(), without: await launchBrowser({ webgpu: false }) };
  try {
    for (const { name, hash, webgpu, fleet, go } of views) {
      if (ONLY.length > 0 && !ONLY.includes(name)) continue;
      const browser = webgpu === false ? browsers.without : browsers.with;
      const { page } = await openPage(browser, `${served.url}${hash}`, SIZES[0]);
      if (fleet !== undefined) await simulated(page, fleet);
      else if (webgpu === false) await until(page, "state.status.value.phase === 'recorded'");
      else {
        // Engines are ready before the automatic turns begin.
        await until(page, 'state.turns.value.length >= state.settings.value.turns');
        await untilReady(page);
      }
      await go?.(page);
      for (const size of SIZES) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
        await scrollThrough(page);
        const whole = path.join(folder, `${name}-${size.width}-whole.png`);
        await page.screenshot({ path: whole, fullPage: true });
        for (const colorScheme of SCHEMES) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          const file = path.join(folder, `${name}-${size.width}-${colorScheme}.png`);
          await page.screenshot({ path: file });
          process.stderr.write(`${path.relative(process.cwd(), file)}\n`);
        }
      }
      await page.close();
    }
  } finally {
    for (const browser of Object.values(browsers)) await browser.close();
    await served.close();
  }
});
