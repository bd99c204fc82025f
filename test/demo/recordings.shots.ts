/** `npx vitest run --config test/demo/screenshots.config.ts --root . recordings`: walks through each lesson and saves a recording for browsers without WebGPU. */
import path from 'node:path';
import { test } from 'vitest';
import { lessons } from '../../demo/src/lessons/index.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, untilReady, walkStep } from './page.ts';

/** `LESSONS=1,9`: only these lessons. */
const ONLY = (process.env.LESSONS ?? '').split(',').filter(Boolean).map(Number);
const folder = path.join(import.meta.dirname, '..', '..', 'demo', 'recordings');

test('a recording of each lesson', async () => {
  const served = await servePage();
  const browser = await launchBrowser();
  try {
    for (const lesson of lessons) {
      const { number, tasks } = lesson;
      if (ONLY.length > 0 && !ONLY.includes(number)) continue;
      const { page } = await openPage(browser, `${served.url}#lesson=${number}&speed=live`);
      await untilReady(page);
      for (const i of tasks.keys()) {
        await walkStep(page, lesson, i);
        await untilReady(page);
      }
      const saving = page.waitForEvent('download');
      await page.evaluate('kvferry.actions.saveRecording()');
      const file = path.join(folder, `lesson-${number}.json`);
      await (await saving).saveAs(file);
      process.stderr.write(`${path.basename(file)}\n`);
      await page.close();
    }
  } finally {
    await browser.close();
    await served.close();
  }
});
