/** Messages after engines are killed say which engines still serve, and they are right. */
import { expect, onTestFinished, test } from 'vitest';
import { aloneInWords } from '../../demo/src/fleet/names.ts';
import { killedInWords } from '../../demo/src/session/breaking.ts';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { openPage, servePage, simulated } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(() => launchBrowser({ webgpu: false }));

test('the message about a killed page engine names it, any left of its role, and when it restarts', () => {
  expect(killedInWords('decode', 'decode-0', 0, false)).toBe(
    'D was stopped without telling the others. No D is left. The next question restarts it first.',
  );
  expect(killedInWords('decode', 'decode-1.2', 1, true)).toBe(
    'D1 was stopped without telling the others. The running task may fail; then the engine restarts.',
  );
});

test('the message about a fleet names the empty role and the engines that serve alone', () => {
  const fleet = (p: 'serving' | 'ended' | 'leaving', d: 'serving' | 'ended' | 'leaving') =>
    aloneInWords([
      { role: 'prefill', state: p },
      { role: 'decode', state: d },
    ]);
  expect(aloneInWords([])).toBeNull();
  expect(fleet('serving', 'serving')).toBeNull();
  expect(fleet('serving', 'ended')).toMatch(/^No D is left, so P serves alone/);
  expect(fleet('leaving', 'serving')).toMatch(/^No P is left, so D serves alone/);
  expect(fleet('ended', 'ended')).toMatch(/^No engine is left, so every request fails/);
});

test('a fleet without D serves with P alone, one without engines fails, and its message says so', async () => {
  const { page } = await openPage(
    browser(),
    `${served().url}#view=fleet&fleet.rate=20&fleet.decode=1&fleet.prefill=1&fleet.startUp=1`,
  );
  onTestFinished(() => page.close());
  const requests = () =>
    page.evaluate<{ answered: number; failed: number }>('kvferryFleet.look.value.requests');
  const said = page.getByRole('region', { name: 'The engines' }).getByRole('status');
  await simulated(page, 2);
  await page.getByRole('button', { name: 'Kill D0' }).click();
  await expect.poll(() => said.innerText()).toContain('P serves alone');
  const { answered } = await requests();
  await expect.poll(async () => (await requests()).answered).toBeGreaterThan(answered + 5);
  expect((await requests()).failed).toBe(0);
  await page.getByRole('button', { name: 'Kill P0' }).click();
  await expect.poll(() => said.innerText()).toContain('every request fails');
  await expect.poll(async () => (await requests()).failed).toBeGreaterThan(2);
  await page.getByRole('button', { name: 'Replace the dead engines' }).click();
  await expect.poll(() => said.innerText()).toBe('');
});
