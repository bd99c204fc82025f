/** The opening as a series of pictures, one every EVERY_MS. WEBGPU=no: the recorded opening. `EVERY_MS=250 FRAMES=60 npx vitest run --config test/demo/screenshots.config.ts strip`. */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'vitest';
import { launchBrowser } from './browser.ts';
import { openPage, servePage } from './page.ts';

const webgpu = process.env.WEBGPU !== 'no';
const folder = path.join(
  import.meta.dirname,
  '..',
  '..',
  'screenshots',
  webgpu ? 'opening' : 'opening-recorded',
);
const FRAMES = Number(process.env.FRAMES ?? 60);
const EVERY_MS = Number(process.env.EVERY_MS ?? 500);

test('the opening', async () => {
  mkdirSync(folder, { recursive: true });
  const served = await servePage();
  const browser = await launchBrowser({ webgpu });
  try {
    const { page } = await openPage(browser, served.url, { width: 1280, height: 800 });
    const begun = performance.now();
    for (let i = 0; i < FRAMES; i++) {
      await page.waitForTimeout(Math.max(0, i * EVERY_MS - (performance.now() - begun)));
      const at = ((performance.now() - begun) / 1000).toFixed(2).padStart(6, '0');
      await page.screenshot({ path: path.join(folder, `${at}.jpg`), type: 'jpeg', quality: 60 });
    }
  } finally {
    await browser.close();
    await served.close();
  }
});
