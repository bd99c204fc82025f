/** `npx vitest run --config test/demo/screenshots.config.ts --root . recordings`: walks each lesson and keeps what happened, for browsers without WebGPU. */
import path from 'node:path';
import { test } from 'vitest';
import { lessons } from '../../demo/src/lessons/index.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, untilReady } from './page.ts';

const folder = path.join(import.meta.dirname, '..', '..', 'demo', 'recordings');

test('a recording of each lesson', async () => {
  const served = await servePage();
  const browser = await launchBrowser();
  try {
    for (const { number, title, tasks } of lessons) {
      const { page } = await openPage(browser, `${served.url}#lesson=${number}&speed=live`);
      await untilReady(page);
      const lesson = page.getByRole('region', { name: `Lesson ${number}: ${title}` });
      for (const [i, { todo }] of tasks.entries()) {
        await lesson.getByRole('button', { name: todo, exact: true }).click();
        await page.waitForFunction(
          (index) => document.querySelectorAll('.lesson-task')[index]?.getAttribute('data-seen') === 'true',
          i,
          { timeout: 200_000 },
        );
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
