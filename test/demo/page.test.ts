/** The page in a real browser: engines on a software GPU, and without any. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { lessons } from '../../demo/src/lessons/index.ts';
import { whileTesting } from '../while-testing.ts';
import { seriousFaults } from './axe.ts';
import { launchBrowser } from './browser.ts';
import {
  ask,
  type OpenedPage,
  openPage,
  openSettings,
  readState,
  servePage,
  servePlainly,
  until,
  untilReady,
  walkStep,
} from './page.ts';

const served = whileTesting(servePage);
/** Each page is opened in a context of its own. */
const browser = whileTesting(launchBrowser);

describe('with WebGPU', () => {
  let opened: OpenedPage;
  beforeAll(async () => {
    opened = await openPage(browser(), `${served().url}#speed=live`);
  });
  afterAll(() => opened.page.close());

  test('is isolated, and both workers get a device', async () => {
    const { page } = opened;
    await until(page, 'state.machine.value !== null');
    expect(await page.evaluate('crossOriginIsolated')).toBe(true);
    expect(page.workers()).toHaveLength(2);
    const { alive } = await readState(page);
    expect(alive).toEqual({ prefill: true, decode: true });
    expect(await page.evaluate('kvferry.state.machine.value.adapter.name')).toMatch(/swiftshader/i);
  });

  test('plays the first turns by itself, and a block goes back from D to P', async () => {
    const { page } = opened;
    await until(page, 'state.turns.value.length === 3 && state.turns.value[2].endMs !== null');
    await untilReady(page);
    const { turns, pulls } = await readState(page);
    expect(turns.map(({ error }) => error)).toEqual([null, null, null]);
    const { result } = turns[2]!;
    expect(result!.pulled_tokens).toBeGreaterThan(0);
    expect(result!.local_hit_tokens + result!.pulled_tokens + result!.computed_tokens).toBe(
      result!.prompt_tokens,
    );
    const back = pulls.find(({ side }) => side === 'prefill')!;
    expect(back).toMatchObject({ outcome: 'done', bytesDone: back.bytes });
    expect(back.bytes).toBe(result!.transfer.d_to_p.bytes);
    await expect
      .poll(() => page.getByRole('region', { name: 'Conversation' }).innerText())
      .toContain(turns[2]!.answer);
  });

  test('tells what is in the blocks', async () => {
    const { page } = opened;
    await until(page, "state.drawn.decode.value.blocks.value.some((block) => block.state === 'held')");
    const held = await page.evaluate(
      "kvferry.state.drawn.decode.value.blocks.value.filter((block) => block.state === 'held')",
    );
    const blocks = held as {
      text: string;
      heldFor: string;
      conversation: string;
      hash: string;
      turn: number;
    }[];
    expect(blocks[0]).toMatchObject({ heldFor: 'prefill', turn: 1 });
    expect(blocks.map(({ text }) => text).join('')).toContain('My name is Ada');
  });

  test('has no serious fault of accessibility', async () => {
    expect(await seriousFaults(opened.page)).toEqual([]);
  });

  test('a threshold out of reach lets P compute, and says why', async () => {
    const { page } = opened;
    await openSettings(page);
    const threshold = page.getByLabel('Recompute threshold, tokens');
    await threshold.fill('100000');
    await threshold.press('Enter');
    await threshold.blur();
    await page.keyboard.press('Escape');
    await until(page, "state.settings.value.threshold === 100000 && state.status.value.phase === 'ready'");
    expect(new URL(page.url()).hash).toContain('threshold=100000');
    const turn = await ask(page, 'What did Gus find?');
    expect(turn.result).toMatchObject({ pulled_tokens: 0 });
    expect(turn.result!.no_pull_reason).toContain('threshold 100000');
  });

  test('the race runs one turn both ways, with one answer', async () => {
    const { page } = opened;
    await page.evaluate('void kvferry.actions.runRace()');
    await until(page, "state.race.value?.pull.phase === 'done' || state.race.value?.error");
    await untilReady(page);
    const { race, turns } = await readState(page);
    expect(race).toMatchObject({ error: null, recompute: { pulledTokens: 0 } });
    const lanes = race as unknown as Record<'pull' | 'recompute', { pulledTokens: number; answer: string }>;
    expect(lanes.pull.pulledTokens).toBeGreaterThan(0);
    expect(lanes.pull.answer).toBe(lanes.recompute.answer);
    // What the race asked is no part of the conversation.
    expect(turns.every(({ conversation }) => conversation.startsWith('chat'))).toBe(true);
  });

  test('killing D in an answer ends the turn with a sentence, and the page goes on', async () => {
    const { page } = opened;
    await page.getByRole('button', { name: 'Reset' }).click();
    await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
    await page.getByLabel('Your message').fill('Tell me a story about Gus and a bear.');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await until(page, 'state.turns.value.at(-1)?.tokens >= 3');
    await page.getByRole('button', { name: 'Kill D' }).click();
    await until(page, 'state.turns.value.at(-1).endMs !== null');
    const { turns } = await readState(page);
    expect(turns.at(-1)!.error).toMatch(/decode-0 ended/);
    await untilReady(page);
    expect((await readState(page)).alive).toEqual({ prefill: true, decode: true });
    const again = await ask(page, 'Tell me a story about Gus and a bear.');
    expect(again).toMatchObject({ error: null });
    expect(again.answer).toContain('The end.');
  });

  test('a streamed hand-over is chosen by a control, and its blocks are known as they come', async () => {
    const { page } = opened;
    await page.getByRole('button', { name: 'Reset' }).click();
    await until(page, "state.turns.value.length === 0 && state.status.value.phase === 'ready'");
    await openSettings(page);
    await page.getByLabel('Hand-over from P to D').selectOption('streamed');
    await page.keyboard.press('Escape');
    await until(page, "state.settings.value.handover === 'streamed' && state.status.value.phase === 'ready'");
    expect(new URL(page.url()).hash).toContain('handover=streamed');
    const turn = await ask(page, 'Tell me a story about Gus and a bear.');
    expect(turn).toMatchObject({ error: null });
    expect(turn.answer).toContain('The end.');
    const { pulls } = await readState(page);
    const over = pulls.findLast(({ side }) => side === 'decode')!;
    expect(over).toMatchObject({ outcome: 'done', bytesDone: over.bytes });
    expect(over.pairs).toHaveLength(turn.result!.transfer.p_to_d.blocks);
    expect(over.chunks!.flat()).toEqual(over.pairs);
  });

  test('nothing went wrong on the console', () => {
    expect(opened.errors).toEqual([]);
  });
});

describe('the address', () => {
  test('brings back a state, and what it cannot mean is said', async () => {
    const hash =
      '#model=nano&mode=unidirectional&seed=5&threshold=7&pBlocks=32&link=10e6%2C1ms&handover=streamed&turns=0&speed=live';
    const { page, errors } = await openPage(browser(), `${served().url}${hash}&treshold=1&dBlocks=many`);
    onTestFinished(() => page.context().close());
    await untilReady(page);
    const { settings, notes } = await readState(page);
    expect(settings).toMatchObject({
      model: 'nano',
      mode: 'unidirectional',
      seed: 5,
      threshold: 7,
      pBlocks: 32,
      dBlocks: 64,
      link: '10e6,1ms',
      handover: 'streamed',
      turns: 0,
    });
    expect(notes.join(' ')).toContain("'treshold', which is no setting: did you mean threshold?");
    expect(notes.join(' ')).toContain("dBlocks to 'many'");
    await page.getByRole('radio', { name: 'Both ways' }).check();
    await until(
      page,
      "state.settings.value.mode === 'bidirectional' && state.status.value.phase === 'ready'",
    );
    const { page: second } = await openPage(browser(), page.url());
    onTestFinished(() => second.context().close());
    await untilReady(second);
    expect((await readState(second)).settings).toEqual((await readState(page)).settings);
    expect(errors).toEqual([]);
  });
});

describe('without WebGPU', () => {
  const browser = whileTesting(() => launchBrowser({ webgpu: false }));
  /** What some lessons say of their last step, with what was recorded. */
  const TOLD: Readonly<Record<number, string>> = { 10: 'tokens of both answers are the same' };

  test('says what is missing and replays a recorded run', async () => {
    const { page, errors } = await openPage(browser(), served().url);
    await until(page, "state.status.value.phase === 'recorded'");
    const why = page.locator('.banner-why');
    await expect.poll(() => why.innerText()).toMatch(/WebGPU/);
    await expect.poll(() => page.getByText('Recorded', { exact: true }).isVisible()).toBe(true);
    await page.evaluate('kvferry.actions.pause(), kvferry.actions.seek(1e9)');
    const { turns, race, crossover, blockStates, replay, time } = await readState(page);
    expect(turns.length).toBeGreaterThan(5);
    expect(turns.every(({ result }) => result !== null)).toBe(true);
    expect(race!.pull.ttftMs).toBeGreaterThan(0);
    expect(crossover!.points.length).toBeGreaterThan(2);
    expect(blockStates.decode).toContain('cached');
    expect(replay).toMatchObject({ title: expect.stringContaining('both ways') });
    expect(time.atMs).toBe(time.lengthMs);
    await page.evaluate('kvferry.actions.seek(0)');
    expect((await readState(page)).turns).toEqual([]);
    expect(await why.innerText()).toMatch(/WebGPU/);
    await page.evaluate('kvferry.actions.step()');
    expect((await readState(page)).turns[0]!.answer).toContain('Ada');
    expect(await seriousFaults(page)).toEqual([]);
    expect(errors).toEqual([]);
  });

  test('plays at a pace that can be followed, says in which mode, and that another conversation begins', async () => {
    const { page } = await openPage(browser(), served().url);
    onTestFinished(() => page.close());
    await until(page, "state.status.value.phase === 'recorded' && state.turns.value.length === 1");
    expect((await readState(page)).time.playing).toBe(true);
    expect(await page.locator('.mode-now').innerText()).toBe('Mode: Both ways');
    await page.evaluate('kvferry.actions.pauseTime(), kvferry.actions.seek(0)');
    const headline = () => page.locator('.story-headline').innerText();
    const told: string[] = [];
    const paces: number[] = [];
    for (let now = await readState(page); now.turns.length < 2; now = await readState(page)) {
      told.push(await headline());
      if (now.turns[0]?.result === null) paces.push(now.time.speed);
      await page.evaluate('kvferry.actions.stepTime()');
    }
    expect(paces.length).toBeGreaterThan(2);
    expect(Math.max(...paces)).toBeLessThan(0.5);
    expect(told.join('; ')).toMatch(/P computes the prompt.*P hands .* over to D.*D wrote \d+ tokens/);
    // Just before the second conversation's first turn.
    await page.evaluate(`(() => {
      const { actions, state } = kvferry;
      for (let at = state.time.value.atMs; state.turns.value.length > 0; at += 0.25) actions.seek(at);
    })()`);
    await expect.poll(headline).toBe('Another conversation begins: one way');
    expect(await page.locator('.mode-now').innerText()).toBe('Mode: One way');
  });

  test.each(lessons.map(({ number, title }) => [number, title] as const))(
    'lesson %i is watched from a link: %s',
    async (number, title) => {
      const { page, errors } = await openPage(browser(), `${served().url}#lesson=${number}&speed=4/1`);
      await until(page, "state.status.value.phase === 'recorded'");
      const lesson = lessons[number - 1]!;
      await expect
        .poll(() => page.getByRole('region', { name: `Lesson ${number}: ${title}` }).count())
        .toBe(1);
      for (const i of lesson.tasks.keys()) {
        await walkStep(page, lesson, i);
        await until(page, '!state.time.value.playing');
      }
      // What it says is said of what was recorded.
      expect(await page.locator('.lesson-task').innerText()).toContain(
        TOLD[number] ?? lesson.tasks.at(-1)!.see,
      );
      expect(errors).toEqual([]);
      await page.close();
    },
    200_000,
  );
});

describe('a host that sets no headers', () => {
  const plain = whileTesting(servePlainly);

  test('the page isolates itself and runs engines', async () => {
    const { page } = await openPage(browser(), `${plain().url}#model=nano&turns=0&speed=live`);
    await page.waitForFunction('globalThis.crossOriginIsolated && globalThis.kvferry', null, {
      timeout: 30_000,
    });
    await untilReady(page);
    expect((await readState(page)).alive).toEqual({ prefill: true, decode: true });
  });
});
