/** A model with windows in a real browser: the same answers in every mode, with what its windows see moved alone. */
import { expect, test } from 'vitest';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import { ask, openPage, readState, servePage, until, untilReady } from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

/** Longer than the windows of 128 tokens. */
const LONG = 'Once there was a hare who lived beside a river and knew every stone of it by name. '.repeat(5);

const open = async (mode: string) => {
  const settings = `model=tiny-hybrid&mode=${mode}&turns=0&speed=live&pBlocks=200&dBlocks=200&threshold=1&maxTokens=6`;
  const opened = await openPage(browser(), `${served().url}#${settings}`);
  await untilReady(opened.page);
  await ask(opened.page, LONG);
  const second = await ask(opened.page, 'And then?');
  return { ...opened, second };
};

test('pulled, handed over and computed alone: one answer, and blocks of every group', async () => {
  const pulling = await open('bidirectional');
  const { turns } = await readState(pulling.page);
  expect(turns.map(({ error }) => error)).toEqual([null, null]);
  const { result } = pulling.second;
  expect(result!.pulled_tokens).toBeGreaterThan(2 * 128);
  // Of five groups no more than the window's blocks, of the sixth all.
  const whole = Math.ceil(result!.pulled_tokens / 16);
  expect(result!.transfer.d_to_p.blocks).toBeGreaterThan(whole + 5 * 7);
  expect(result!.transfer.d_to_p.blocks).toBeLessThanOrEqual(whole + 5 * 9);
  await until(pulling.page, "state.drawn.decode.value.blocks.value.some((block) => block.state === 'held')");
  const groups = await pulling.page.evaluate(
    'new Set(kvferry.state.drawn.decode.value.blocks.value.flatMap(({ group }) => group ?? [])).size',
  );
  expect(groups).toBe(6);

  const alone = await open('monolithic');
  const answers = (await readState(alone.page)).turns.map(({ answer }) => answer);
  expect(turns.map(({ answer }) => answer)).toEqual(answers);
  expect(answers.every((answer) => answer.length > 0)).toBe(true);
  expect([...pulling.errors, ...alone.errors]).toEqual([]);
}, 280_000);
