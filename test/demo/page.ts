/** The built page, served with the headers it needs, and helpers to control and read it in tests. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { Browser, Page } from 'playwright-core';
import type { Lesson } from '../../demo/src/lessons/types.ts';
import type { RecordedTurn } from '../../src/recording/events.ts';

const project = path.join(import.meta.dirname, '..', '..');
const configFile = path.join(project, 'demo', 'vite.config.ts');
const cache = path.join(project, 'node_modules', '.cache', 'kvferry');
const DAY_MS = 86_400_000;

export interface ServedPage {
  /** Ends with a slash. */
  url: string;
  close(): Promise<void>;
}

/** A digest of all files that the page is built from. */
function digestOfSources(): string {
  const hash = createHash('sha256');
  const add = (file: string): void => {
    hash.update(`${file}\n`).update(readFileSync(path.join(project, file)));
  };
  for (const folder of ['demo', 'models', 'shaders', 'src', 'workers'])
    for (const entry of readdirSync(path.join(project, folder), { recursive: true, withFileTypes: true })) {
      const file = path.relative(project, path.join(entry.parentPath, entry.name));
      if (entry.isFile() && !file.startsWith(path.join('demo', 'dist'))) add(file);
    }
  add('package-lock.json');
  return hash.digest('hex').slice(0, 16);
}

/**
 * The folder of the page as `npm run build` makes it, built once for all test files. Vitest's NODE_ENV would select the
 * libraries' larger development builds. Several test files may ask at once: the first to finish wins.
 */
export async function builtPage(): Promise<string> {
  const digest = digestOfSources();
  const folder = path.join(cache, `page-${digest}`);
  if (existsSync(folder)) return folder;
  const outDir = `${folder}.${process.pid}`;
  // Most test files find it built.
  const { build } = await import('vite');
  const before = process.env.NODE_ENV;
  process.env.NODE_ENV = 'production';
  try {
    await build({ configFile, logLevel: 'error', build: { outDir } });
  } finally {
    process.env.NODE_ENV = before;
  }
  try {
    renameSync(outDir, folder);
  } catch {
    rmSync(outDir, { recursive: true, force: true });
  }
  for (const name of readdirSync(cache)) {
    const other = path.join(cache, name);
    const made = statSync(other, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    // Another test run may still serve an older one.
    if (name.startsWith('page-') && Date.now() - made > DAY_MS)
      rmSync(other, { recursive: true, force: true });
  }
  return folder;
}

/** Serves the page below the path `base`, with the headers that engines need. */
export const serveBelow = (base: string): Promise<ServedPage> =>
  serve(base, {
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Embedder-Policy': 'require-corp',
  });

export const servePage = (): Promise<ServedPage> => serveBelow('/');

/** Serves the page below a path without headers, as GitHub Pages does. */
export const servePlainly = (): Promise<ServedPage> => serve('/kvferry/', {});

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
};

/** The built page on a free port. `base` begins and ends with a slash. */
async function serve(base: string, headers: Readonly<Record<string, string>>): Promise<ServedPage> {
  const outDir = await builtPage();
  const server = createServer((request, response) => {
    const { pathname } = new URL(`http://localhost${request.url ?? '/'}`);
    const file = path.join(outDir, pathname.slice(base.length) || 'index.html');
    if (!pathname.startsWith(base) || !file.startsWith(outDir) || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    const body = readFileSync(file);
    const type = TYPES[path.extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { ...headers, 'Content-Type': type, 'Content-Length': body.length }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://localhost:${port}${base}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Milliseconds after which a page counts as hanging, even on a busy machine. */
const HANGING_MS = 150_000;

export interface OpenedPage {
  page: Page;
  /** Errors of the page and on its console so far. */
  errors: string[];
}

export async function openPage(
  browser: Browser,
  url: string,
  viewport = { width: 1280, height: 900 },
): Promise<OpenedPage> {
  const page = await browser.newPage({ viewport });
  page.setDefaultTimeout(HANGING_MS);
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.stack ?? error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  await page.goto(url);
  return { page, errors };
}

/** Part of the session's state as plain data. */
export interface PageState {
  status: { phase: string; message: string };
  settings: Record<string, unknown>;
  notes: string[];
  turns: {
    conversation: string;
    question: string;
    answer: string;
    tokens: number;
    error: string | null;
    result: RecordedTurn | null;
  }[];
  alive: { prefill: boolean; decode: boolean };
  pulls: {
    side: string;
    outcome: string | null;
    bytes: number;
    bytesDone: number;
    pairs: [number, number][];
    chunks: [number, number][][] | null;
  }[];
  blockStates: { prefill: string[]; decode: string[] };
  replay: { title: string } | null;
  time: { atMs: number; lengthMs: number; follows: boolean; playing: boolean; speed: number };
  race: {
    pull: { ttftMs: number | null };
    recompute: { ttftMs: number | null };
    error: string | null;
  } | null;
  crossover: { points: unknown[]; running: boolean; error: string | null } | null;
}

const READ = `(() => {
  const { state } = kvferry;
  const { prefill, decode } = state.drawn;
  const isAlive = (engine) => engine.value?.alive.value ?? false;
  const states = (engine) => [...new Set((engine.value?.blocks.value ?? []).map((block) => block.state))];
  return {
    status: state.status.value,
    settings: state.settings.value,
    notes: state.notes.value.map((note) => note.message),
    turns: state.turns.value,
    alive: { prefill: isAlive(prefill), decode: isAlive(decode) },
    pulls: state.transfers.value,
    blockStates: { prefill: states(prefill), decode: states(decode) },
    replay: state.replay.value,
    time: state.time.value,
    race: state.race.value,
    crossover: state.crossover.value,
  };
})()`;

export const readState = (page: Page): Promise<PageState> => page.evaluate(READ);

/** Waits until `condition` holds: a JavaScript expression over `state`, the session's signals. */
export async function until(page: Page, condition: string, timeout = HANGING_MS): Promise<void> {
  try {
    await page.waitForFunction(`(({ state }) => ${condition})(globalThis.kvferry)`, null, { timeout });
  } catch (error) {
    const { status, notes, turns } = await readState(page);
    const last = turns.at(-1);
    throw new Error(
      `the page never came to: ${condition}; it is ${JSON.stringify({ status, notes, last })}`,
      { cause: error },
    );
  }
}

export const untilReady = (page: Page): Promise<void> =>
  until(page, "state.status.value.phase === 'ready' && !state.playing.value");

/** Asks a question as a user would, and waits for the end of the answer. */
export async function ask(page: Page, question: string): Promise<PageState['turns'][number]> {
  const before = (await readState(page)).turns.length;
  await page.getByLabel('Your message').fill(question);
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await until(page, `state.turns.value.length > ${before} && state.turns.value.at(-1).endMs !== null`);
  await untilReady(page);
  return (await readState(page)).turns.at(-1)!;
}

/** Goes through a lesson's step as a reader would, until it counts as seen. */
export async function walkStep(page: Page, lesson: Lesson, place: number): Promise<void> {
  const { number, title, tasks } = lesson;
  const { todo, predict } = tasks[place]!;
  const region = page.getByRole('region', { name: `Lesson ${number}: ${title}` });
  const step = region.locator('.lesson-task');
  await region.getByRole('button', { name: `Step ${place + 1}` }).click();
  if ((await step.getAttribute('data-seen')) !== 'false') throw new Error(`seen before it was done: ${todo}`);
  const run = region.getByRole('button', { name: todo, exact: true });
  if (await run.isEnabled()) throw new Error(`can be run before anything was predicted: ${todo}`);
  await region.getByRole('button', { name: predict.choices[0], exact: true }).click();
  await run.click();
  await page.waitForFunction(
    "document.querySelector('.lesson-task')?.getAttribute('data-seen') === 'true'",
    null,
    { timeout: 200_000 },
  );
}

/** Waits until the shown fleet has run for `seconds` of simulated time. */
export async function simulated(page: Page, seconds: number): Promise<void> {
  const condition = `globalThis.kvferryFleet?.nowMs.value >= ${1000 * seconds}`;
  await page.waitForFunction(condition);
}

/** Opens the drawer with all settings. */
export const openSettings = (page: Page): Promise<void> =>
  page.getByRole('button', { name: 'Settings', exact: true }).click();

/** The settings of the fleet view. */
export const settingsOf = (page: Page) =>
  page.evaluate<Record<string, unknown>>('kvferryFleet.settings.value');

/** The engines of the fleet view and their states, such as 'prefill-0 serving'. */
export const enginesOf = (page: Page) =>
  page.evaluate<string[]>("kvferryFleet.look.value.engines.map((each) => each.engineId + ' ' + each.state)");
