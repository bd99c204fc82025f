/** The store in the page: its own worker, in memory and in the origin private file system. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Race, StoreView, TransferView } from '../../demo/src/session/types.ts';
import { whileTesting } from '../while-testing.ts';
import { launchBrowser } from './browser.ts';
import {
  ask,
  type OpenedPage,
  openPage,
  openSettings,
  type PageState,
  readState,
  servePage,
  until,
  untilReady,
} from './page.ts';

const served = whileTesting(servePage);
const browser = whileTesting(launchBrowser);

const STORE = 'store=1MiB&storeDir=kv&offloadPromptOnly=false';
const QUESTIONS = [
  'My name is Ada and my boat is mira.',
  'Tell me a story about Gus and a bear.',
  'What is my boat?',
];

const store = (page: Page) => page.evaluate<StoreView | null>('kvferry.state.store.value');
const moved = (page: Page) => page.evaluate<TransferView[]>('kvferry.state.storeTransfers.value');

/** Waits until every block in memory is also in the folder. */
const written = (page: Page) =>
  page.waitForFunction(`(() => {
    const { figures } = kvferry.state.store.value;
    return figures.blocks > 0 && figures.folder?.blocks >= figures.blocks;
  })()`);

async function reload({ page }: OpenedPage): Promise<void> {
  await page.reload();
  await untilReady(page);
}

/** Changes a byte of every block file (flip) or truncates each to half (tear). Resolves to the number of files. */
const damage = (page: Page, how: 'flip' | 'tear') =>
  page.evaluate<number>(`(async () => {
    let count = 0;
    const walk = async (folder) => {
      for await (const entry of folder.values()) {
        if (entry.kind === 'directory') await walk(entry);
        else if (entry.name.endsWith('.kv')) {
          const bytes = new Uint8Array(await (await entry.getFile()).arrayBuffer());
          bytes[bytes.length - 1] ^= 1;
          const writer = await entry.createWritable();
          await writer.write('${how}' === 'tear' ? bytes.subarray(0, bytes.length >> 1) : bytes);
          await writer.close();
          count++;
        }
      }
    };
    await walk(await (await navigator.storage.getDirectory()).getDirectoryHandle('kv'));
    return count;
  })()`);

const tokensOf = (turn: PageState['turns'][number]) => turn.result!.output_token_ids;

describe('a conversation with a store', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await openPage(browser(), `${served().url}#turns=0&speed=live&${STORE}`);
    await untilReady(opened.page);
  });
  afterAll(() => opened.page.close());

  /** Tokens of the third answer, from engines that were restarted. */
  let third: readonly number[];
  let fourth: readonly number[];

  test('is saved to the store as it is computed, and its blocks are shown', async () => {
    const { page } = opened;
    expect(page.workers()).toHaveLength(3);
    await ask(page, QUESTIONS[0]!);
    const turn = await ask(page, QUESTIONS[1]!);
    await written(page);
    const { figures, memory } = (await store(page))!;
    const there = memory.filter(({ state }) => state === 'cached');
    expect(there).toHaveLength(figures.blocks);
    expect(there.map(({ text }) => text).join('')).toContain('My name is Ada and my boat is mira.');
    // The conversation's blocks in order, each once.
    expect(there.map(({ index }) => index)).toEqual(there.map((_, i) => i));
    const saved = (await moved(page)).filter(({ to }) => to === 'store');
    const landed = saved.flatMap(({ pairs }) => pairs.map(([, at]) => at));
    expect(landed.toSorted((a, b) => a - b)).toEqual(there.map(({ id }) => id));
    expect(saved.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(figures.blocks * figures.blockBytes);
    expect(turn.result!.transfer.store_to_p!.blocks).toBeGreaterThan(0);
    expect(figures.twoHopBytes).toBe(0);
  });

  test('continues after a reload and loads its KV from the store', async () => {
    const { page } = opened;
    const before = (await readState(page)).turns;
    await reload(opened);
    const { turns, status } = await readState(page);
    expect(status.phase).toBe('ready');
    expect(turns.map(({ question, answer }) => [question, answer])).toEqual(
      before.map(({ question, answer }) => [question, answer]),
    );
    const chat = page.getByRole('region', { name: 'Conversation' });
    await expect.poll(() => chat.innerText()).toContain('My name is Ada');
    const kept = (await store(page))!;
    expect(kept.figures.blocks).toBe(0);
    expect(kept.folder.some(({ text }) => text?.includes('name is Ada'))).toBe(true);
    const turn = await ask(page, QUESTIONS[2]!);
    const { store_to_p: loaded } = turn.result!.transfer;
    expect(loaded!.blocks).toBeGreaterThanOrEqual(kept.folder.filter(({ text }) => text).length - 1);
    expect(turn.result!.turn).toBe(3);
    expect(turn.answer).toContain('mira');
    third = tokensOf(turn);
  });

  test('is recomputed when the files are damaged, which are ignored with a single note', async () => {
    const { page } = opened;
    const folder = async () => (await store(page))!.figures.folder!;
    expect(await damage(page, 'tear')).toBe((await folder()).blocks);
    await reload(opened);
    const { blocks } = await folder();
    const turn = await ask(page, QUESTIONS[0]!);
    expect(turn.result!.transfer.store_to_p?.blocks ?? 0).toBe(0);
    expect(turn.result!.pulled_tokens).toBe(0);
    fourth = tokensOf(turn);
    await page.waitForFunction('kvferry.state.store.value.figures.folder.broken > 0');
    expect((await folder()).broken).toBe(blocks);
    const told = (await readState(page)).notes.filter((note) => note.includes('is ignored and removed'));
    expect(told).toHaveLength(1);
  });

  test('continues when the folder is emptied', async () => {
    const { page } = opened;
    const before = (await readState(page)).turns.length;
    await page.evaluate('kvferry.actions.emptyFolder()');
    await untilReady(page);
    await written(page);
    const { figures } = (await store(page))!;
    // The conversation was recomputed and is all that the folder has.
    expect(figures.folder).toMatchObject({ blocks: figures.blocks, read: 0 });
    expect((await readState(page)).turns).toHaveLength(before);
  });

  test('has the same tokens as without a store', async () => {
    const { page } = await openPage(browser(), `${served().url}#turns=0&speed=live`);
    await untilReady(page);
    for (const question of QUESTIONS.slice(0, 2)) await ask(page, question);
    expect(tokensOf(await ask(page, QUESTIONS[2]!))).toEqual(third);
    expect(tokensOf(await ask(page, QUESTIONS[0]!))).toEqual(fourth);
    expect(page.workers()).toHaveLength(2);
    await page.close();
  });

  test('leaves no error on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});

test('without private files the store is in memory only, with a note', async () => {
  const page = await browser().newPage();
  onTestFinished(() => page.close());
  const none = "navigator.storage.getDirectory = () => Promise.reject(new Error('not here'));";
  await page.addInitScript(none);
  await page.route(/store-browser/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: `${none}${await response.text()}` });
  });
  await page.goto(`${served().url}#model=nano&turns=0&maxTokens=8&speed=live&${STORE}`);
  await untilReady(page);
  expect((await readState(page)).notes.join(' ')).toContain('this browser keeps no files for this page');
  await ask(page, 'Hello there, who are you and what is this?');
  expect((await store(page))!.figures).toMatchObject({ folder: null });
  expect((await store(page))!.figures.blocks).toBeGreaterThan(0);
  await openSettings(page);
  await page.getByRole('button', { name: 'Delete the kept KV' }).click();
  await until(page, "state.notes.value.some(({ message }) => message.includes('no kept KV to delete'))");
  await untilReady(page);
});

test("after the site's data was cleared, blocks are written to a new folder", async () => {
  const { page } = await openPage(
    browser(),
    `${served().url}#model=nano&turns=0&maxTokens=8&speed=live&${STORE}`,
  );
  onTestFinished(() => page.context().close());
  await untilReady(page);
  await ask(page, 'Hello there, who are you?');
  await written(page);
  const { origin } = new URL(served().url);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  await ask(page, 'And what is this?');
  await written(page);
  expect((await store(page))!.figures.folder).toMatchObject({ leftOut: 0 });
  expect((await readState(page)).notes).toEqual([]);
  // It is a store's folder again.
  await page.reload();
  await untilReady(page);
  expect((await store(page))!.figures.folder!.blocks).toBeGreaterThan(0);
});

test('where the browser allows no more files, a note says so, and the store has the rest in memory', async () => {
  const { page } = await openPage(browser(), `${served().url}isolation.js`);
  onTestFinished(() => page.context().close());
  const { origin } = new URL(served().url);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 20_000 });
  await page.goto(`${served().url}#model=nano&turns=0&speed=live&${STORE}`);
  await untilReady(page);
  expect((await ask(page, 'Hello there, who are you?')).error).toBeNull();
  await page.waitForFunction('kvferry.state.store.value.figures.folder.leftOut > 0');
  expect((await readState(page)).notes).toEqual([
    expect.stringContaining(
      'cannot be written to (no room is left: the disk, or what the browser allows this site',
    ),
  ]);
});

test('a race recomputes despite a store, and pulls despite the threshold', async () => {
  const { page, errors } = await openPage(
    browser(),
    `${served().url}#model=nano&turns=0&maxTokens=24&threshold=100000&speed=live&${STORE}`,
  );
  onTestFinished(() => page.close());
  await untilReady(page);
  await ask(page, 'Hello there, who are you and what is this?');
  await page.evaluate('kvferry.actions.runRace()');
  await untilReady(page);
  const race = await page.evaluate<Race>('kvferry.state.race.value');
  expect(race.error).toBeNull();
  expect(race.recompute.pulledTokens).toBe(0);
  expect(race.pull.bytesPulled).toBeGreaterThan(0);
  // Each measurement says that it leaves the store out.
  for (const name of ['The race', 'The stall', 'Where pulling begins to win'])
    await expect.poll(() => page.getByRole('region', { name }).innerText()).toContain('without the store');
  expect(errors).toEqual([]);
});
