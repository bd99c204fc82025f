/** `npm run screenshots`: the main view, each lesson and the replay, light and dark, 1280 and 390 pixels wide. */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'vitest';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, until, untilReady } from './page.ts';

const folder = path.join(import.meta.dirname, '..', '..', 'screenshots');
const LESSONS = 8;
const WIDTHS = [1280, 390];
const SCHEMES = ['light', 'dark'] as const;

test('screenshots', async () => {
  mkdirSync(folder, { recursive: true });
  const served = await servePage();
  const browser = await launchBrowser();
  try {
    const views = ['main', ...Array.from({ length: LESSONS }, (_, i) => `lesson-${i + 1}`)];
    for (const view of views) {
      const lesson = view === 'main' ? '' : `lesson=${view.slice('lesson-'.length)}&`;
      const { page } = await openPage(browser, `${served.url}#${lesson}turns=3`);
      await until(page, 'state.machine.value !== null');
      await untilReady(page);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        for (const colorScheme of SCHEMES) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          const file = path.join(folder, `${view}-${width}-${colorScheme}.png`);
          await page.screenshot({ path: file, fullPage: true });
          process.stderr.write(`${path.relative(process.cwd(), file)}\n`);
        }
      }
      await page.evaluate('kvferry.actions.stop()');
      await page.close();
    }
  } finally {
    await browser.close();
    await served.close();
  }
});
