/** The page's session on fake engines that only start: failed starts, recordings and settings changes. */
import { afterAll, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import type { Measuring } from '../../../demo/src/session/experiments/measuring.ts';
import { checkedSettings, fromHash } from '../../../demo/src/session/hash.ts';
import { savedText } from '../../../demo/src/session/playback/log.ts';
import { defaultSettings, type Settings } from '../../../demo/src/session/settings.ts';
import { crossoverEvent, turn1 } from '../views/fixture.ts';

/** Records the models that engines were started with, and how often they were emptied. */
const engines = vi.hoisted(() => ({
  started: [] as string[],
  emptied: 0,
  broken: false,
  full: false,
  /** Concurrent starts now, and their maximum. */
  building: [0, 0] as [number, number],
  set: [] as Settings[],
  /** What the next calls of endConversation() wait for. */
  ending: [] as Promise<void>[],
}));

vi.mock('../../../demo/src/session/engines.ts', () => ({
  Engines: class {
    readonly shelf = {
      refusalOf: (model: string) => (model === 'foo' ? "There is no model 'foo': there are others." : null),
      drop: (name: string) => name,
    };
    running: unknown = null;
    canChangeTo = ({ model }: Settings) => this.running !== null && model === engines.started.at(-1);
    async start({ model }: Settings) {
      this.running = null;
      engines.started.push(model);
      engines.building[0]++;
      engines.building[1] = Math.max(...engines.building);
      await new Promise((resolve) => setTimeout(resolve, 5));
      engines.building[0]--;
      if (engines.broken) throw new Error('the server is away');
      this.running = { recorder: { endConversation: async () => engines.ending.shift() } };
    }
    async configure(settings: Settings) {
      engines.emptied++;
      engines.set.push(settings);
    }
    async revive() {}
    counts = { prefill: 1, decode: 1 };
    async scale() {
      if (engines.full) throw new Error('no memory for another engine');
    }
    async close() {
      this.running = null;
    }
  },
}));
vi.mock('../../../demo/src/session/experiments/crossover.ts', () => ({
  runCrossover: async ({ emit, now }: Measuring) => emit({ ...crossoverEvent, atMs: now() }),
}));
vi.mock('../../../demo/src/session/experiments/stall.ts', () => ({
  runStall: ({ signal }: Measuring) =>
    new Promise((_, reject) => {
      // The signal may be aborted before this module is loaded.
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
}));
const missing = vi.hoisted(() => ({ found: null as { message: string } | null }));
vi.mock('../../../demo/src/session/support.ts', () => ({ whatIsMissing: async () => missing.found }));
vi.mock('../../../demo/src/session/isolation.ts', () => ({ reloadIsolated: async () => false }));

let follow: (event: { oldURL: string }) => void;
const page = {
  hash: '',
  get href() {
    return `http://localhost/${this.hash}`;
  },
};

beforeEach(() => {
  Object.assign(engines, { started: [], emptied: 0, broken: false, full: false, building: [0, 0], set: [] });
  vi.stubGlobal('location', page);
  vi.stubGlobal('history', {
    replaceState: (_: unknown, __: string, url: string) => {
      page.hash = url.slice('http://localhost/'.length);
    },
  });
  vi.stubGlobal('addEventListener', (_: string, heard: typeof follow) => {
    follow = heard;
  });
  vi.stubGlobal('requestAnimationFrame', () => 0);
  vi.stubGlobal('cancelAnimationFrame', () => {});
});
// Not after each test: unfinished work of a test still needs the page.
afterAll(() => void vi.unstubAllGlobals());

/** Opens a page at this address. */
async function open(hash: string) {
  page.hash = hash;
  const { needEngines } = await import('../../../demo/src/session/shown.ts');
  needEngines();
  const { createSession } = await import('../../../demo/src/session/session.ts');
  const session = createSession();
  await expect.poll(() => session.state.status.value.phase).toMatch(/ready|failed|recorded/);
  return session;
}

/** Navigates to this address within the page. */
function go(hash: string): void {
  const oldURL = `http://localhost/${page.hash}`;
  page.hash = hash;
  follow({ oldURL });
}

const asFile = () => new File([savedText(turn1, 'mine')], 'mine.json');

it('Reset starts engines that had failed to start, and returns even if they fail again', async () => {
  engines.broken = true;
  const { state, actions } = await open('#turns=0&model=tiny');
  expect(state.status.value).toMatchObject({ phase: 'failed', message: 'the server is away' });
  await actions.reset();
  expect(state.status.value).toMatchObject({ phase: 'failed', message: 'the server is away' });
  engines.broken = false;
  await actions.reset();
  expect(state.status.value.phase).toBe('ready');
  expect(engines.started).toEqual(['tiny', 'tiny', 'tiny']);
});

it("ending a visitor's recording starts engines with the settings of the address, without its turns", async () => {
  const { state, actions } = await open('#turns=0&model=tiny&threshold=7');
  await actions.loadRecording(asFile());
  expect(state.replay.value).toEqual({ title: 'mine', why: null });
  actions.seek(Number.POSITIVE_INFINITY);
  expect(state.turns.value).toHaveLength(1);
  await actions.endReplay();
  expect(state.replay.value).toBeNull();
  expect(state.turns.value).toEqual([]);
  expect(state.status.value.phase).toBe('ready');
  expect(state.settings.value).toEqual({ ...defaultSettings, turns: 0, model: 'tiny', threshold: 7 });
});

it('the address keeps its settings during a recording, and only takes over the speed', async () => {
  const { state, actions } = await open('#turns=0&model=tiny&threshold=7');
  const settings = { kind: 'settings' as const, atMs: 0, settings: { mode: 'monolithic', threshold: 3 } };
  const file = new File([savedText([settings, ...turn1], 'mine')], 'mine.json');
  await actions.loadRecording(file);
  expect(state.settings.value).toMatchObject({ mode: 'monolithic', threshold: 3 });
  await actions.configure({ speed: '4/1' });
  expect(state.settings.value).toMatchObject({ speed: '4/1' });
  expect(page.hash).toBe('#model=tiny&threshold=7&turns=0&speed=4%2F1');
  await actions.endReplay();
  expect(state.settings.value).toMatchObject({ mode: 'bidirectional', threshold: 7, speed: '4/1' });
});

it('the speed of a recording with large pools can be changed', async () => {
  const { state, actions } = await open('#turns=0&model=tiny');
  const settings = { kind: 'settings' as const, atMs: 0, settings: { dBlocks: 4353 } };
  await actions.loadRecording(new File([savedText([settings, ...turn1], 'mine')], 'mine.json'));
  await actions.configure({ speed: '4/1' });
  expect(state.settings.value).toMatchObject({ dBlocks: 4353, speed: '4/1' });
  expect(state.notes.value).toEqual([]);
});

it('visiting the fleet leaves a recording unchanged; changing a recorded setting gives a note', async () => {
  const { state, actions } = await open('#turns=0&model=tiny');
  const settings = { kind: 'settings' as const, atMs: 0, settings: { threshold: 3 } };
  await actions.loadRecording(new File([savedText([settings, ...turn1], 'mine')], 'mine.json'));
  go('#turns=0&model=tiny&view=fleet&fleet.rate=20');
  go('#turns=0&model=tiny');
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(state.notes.value).toEqual([]);
  go('#turns=0&model=tiny&threshold=9');
  await expect.poll(() => state.notes.value).toHaveLength(1);
  expect(state.notes.value[0]!.message).toContain('This is a recording');
  expect(state.settings.value.threshold).toBe(3);
});

it('the note on an invalid recording disappears when a valid one is loaded', async () => {
  const { state, actions } = await open('#turns=0');
  await actions.loadRecording(new File(['x'], 'bad.json'));
  expect(state.notes.value[0]!.message).toContain('bad.json is not JSON');
  await actions.loadRecording(asFile());
  expect(state.notes.value).toEqual([]);
});

it('a recording loaded during a lesson is not shown as that lesson’s', async () => {
  const { state, actions } = await open('#lesson=3&model=tiny');
  await actions.loadRecording(asFile());
  expect(state.settings.value.lesson).toBeNull();
  await actions.endReplay();
  expect(state.settings.value.lesson).toBe(3);
});

it('the lesson of a recording is shown until the visitor ends it', async () => {
  const { state, actions } = await open('#turns=0');
  const saved = (atMs: number, lesson: number | null) => {
    return { kind: 'settings' as const, atMs, settings: { ...defaultSettings, lesson } };
  };
  const told = [saved(0, null), saved(1, 3), ...turn1, saved(1e6, 3)];
  await actions.loadRecording(new File([savedText(told, 'mine')], 'mine.json'));
  expect(state.settings.value.lesson).toBe(3);
  await actions.configure({ lesson: null });
  actions.seek(Number.POSITIVE_INFINITY);
  await actions.reset();
  expect(state.settings.value.lesson).toBeNull();
});

it('a lesson begun during a recording runs on engines', async () => {
  const { state, actions } = await open('#turns=0');
  await actions.loadRecording(asFile());
  await actions.begin({ lesson: 3, turns: 0 });
  expect(state.replay.value).toBeNull();
  expect(state.settings.value.lesson).toBe(3);
  expect(engines.started).toHaveLength(2);
});

it('a change of the address to a lesson begins the lesson', async () => {
  const { state } = await open('#turns=0');
  go('#lesson=3');
  await expect.poll(() => engines.emptied).toBeGreaterThan(0);
  expect(state.settings.value.lesson).toBe(3);
});

it('an address with an unknown model gives a note and leaves the engines unchanged', async () => {
  const first = await open('#turns=0&model=foo');
  expect(first.state.notes.value.map(({ message }) => message)).toEqual([
    "There is no model 'foo': there are others. Until then the page uses recall.",
  ]);
  const { state } = await open('#turns=0&model=tiny');
  engines.started = [];
  go('#turns=0&model=foo&maxTokens=8');
  await expect.poll(() => state.notes.value).not.toEqual([]);
  expect(state.notes.value[0]!.message).toContain("no model 'foo'");
  expect(state.settings.value).toMatchObject({ model: 'tiny', maxTokens: 8 });
  expect(page.hash).toContain('model=tiny');
  expect(engines.started).toEqual([]);
  expect(state.status.value.phase).toBe('ready');
});

it('problems of the address are reported over the recording of a browser that runs no engines', async () => {
  missing.found = { message: 'This browser has no WebGPU.' };
  onTestFinished(() => {
    missing.found = null;
  });
  vi.stubGlobal('fetch', async () => new Response(savedText(turn1, 'shipped')));
  const { state } = await open('#modle=nano&threshold=abc&model=foo');
  expect(state.replay.value?.why).toBe('This browser has no WebGPU.');
  expect(state.notes.value.map(({ message }) => message)).toEqual([
    "The address sets 'modle', which is not a setting: did you mean model? The address sets threshold to 'abc': wanted a whole number of tokens, 0 or more.",
    "There is no model 'foo': there are others. Until then the page uses recall.",
  ]);
});

it('concurrent changes are applied one at a time, and the settings match the engines', async () => {
  const { state, actions } = await open('#turns=0&model=nano');
  await Promise.all([actions.configure({ mode: 'monolithic' }), actions.configure({ threshold: 5 })]);
  expect(engines.set.at(-1)).toMatchObject({ mode: 'monolithic', threshold: 5 });
  expect(state.notes.value).toEqual([]);
  await Promise.all([actions.configure({ model: 'small' }), actions.configure({ model: 'tiny' })]);
  expect(engines.started.at(-1)).toBe('tiny');
  expect(engines.building).toEqual([0, 1]);
  expect(state.settings.value.model).toBe('tiny');
});

it('a change made while engines start for an earlier one is applied afterwards', async () => {
  const { state, actions } = await open('#turns=0&model=nano');
  await Promise.all([actions.configure({ model: 'small' }), actions.configure({ threshold: 9 })]);
  expect(engines.set.at(-1)).toMatchObject({ model: 'small', threshold: 9 });
  expect(state.settings.value).toMatchObject({ model: 'small', threshold: 9 });
  expect(page.hash).toBe('#model=small&threshold=9&turns=0');
});

it('beginning again several times at once works without a note that something runs', async () => {
  const { state, actions } = await open('#turns=0&model=nano');
  await Promise.all([actions.begin({ mode: 'monolithic' }), actions.begin({}), actions.begin({})]);
  expect(state.notes.value).toEqual([]);
  expect(engines.set.at(-1)).toMatchObject({ mode: 'monolithic' });
  expect(state.status.value.phase).toBe('ready');
});

it('of two lessons begun one after the other, the second stays, even if the first waits longer', async () => {
  const { state, actions } = await open('#turns=0');
  let end = () => {};
  // D releases the conversation's blocks for the first; for the second there is nothing left to release.
  engines.ending = [
    new Promise((resolve) => {
      end = resolve;
    }),
  ];
  const begun = [actions.begin({ lesson: 4, mode: 'unidirectional' }), actions.begin({ lesson: 10 })];
  await begun[1];
  end();
  await begun[0];
  expect(state.settings.value.lesson).toBe(10);
  expect(engines.set.at(-1)).toMatchObject({ lesson: 10 });
});

it('a model address that failed is loaded again on request, but not once it is loaded', async () => {
  engines.broken = true;
  const url = 'https://host/model';
  const { state, actions } = await open(`#turns=0&model=${encodeURIComponent(url)}`);
  expect(state.status.value.phase).toBe('failed');
  engines.broken = false;
  await actions.loadModel({ url });
  expect(state.status.value.phase).toBe('ready');
  await actions.loadModel({ url });
  expect(engines.started).toEqual([url, url]);
});

it('dropped files replace the model even if earlier ones had the same name', async () => {
  const { actions } = await open('#turns=0&model=tiny');
  for (const _ of [1, 2]) await actions.loadModel({ name: 'the dropped files', files: [] });
  expect(engines.started).toEqual(['tiny', 'the dropped files', 'the dropped files']);
});

it('a measurement is removed when the model changes', async () => {
  const { state, actions } = await open('#turns=0&model=tiny');
  await actions.runCrossover();
  expect(state.crossover.value).not.toBeNull();
  await actions.configure({ model: 'nano' });
  expect(state.crossover.value).toBeNull();
});

it('adding an engine ends a running measurement and keeps the new number of engines', async () => {
  const { state, actions } = await open('#turns=0&model=tiny');
  const stalled = actions.runStall();
  await expect.poll(() => state.status.value.phase).toBe('busy');
  await actions.configure({ decode: 2 });
  await stalled;
  expect(state.notes.value.map(({ message }) => message)).toEqual([
    'Stopped: Two users: one gets an answer, the other pastes a long text.',
  ]);
  expect(state.settings.value.decode).toBe(2);
  expect(engines.set.at(-1)!.decode).toBe(2);
});

it('after two refused additions the settings have the number of engines that run', async () => {
  const { state, actions } = await open('#turns=0&model=tiny');
  engines.full = true;
  await Promise.all([actions.configure({ decode: 2 }), actions.configure({ decode: 3 })]);
  // The second refusal took the place of the first.
  expect(state.notes.value.map(({ id }) => id)).toEqual([2]);
  expect(state.settings.value.decode).toBe(1);
});

it('all invalid settings of an address are reported in one note', async () => {
  const { state } = await open('#turns=0&mode=a&threshold=b&link=c&dBlocks=d&seed=e');
  const [note, ...others] = state.notes.value;
  expect(others).toEqual([]);
  for (const key of ['mode', 'threshold', 'link', 'dBlocks', 'seed'])
    expect(note!.message).toContain(`The address sets ${key} to`);
});

it('a refused setting is named as its field and as in the address', () => {
  const refused = (change: Partial<Settings>) => () => checkedSettings(defaultSettings, change);
  expect(refused({ ttl: 0 })).toThrow("“D's hold, seconds” (ttl in the address) is '0': wanted ");
  expect(refused({ lesson: 99 })).toThrow("lesson is '99': wanted a lesson from 1 to 12.");
});

it('an address cannot set more blocks than the page can draw', () => {
  const { settings, problems } = fromHash('#pBlocks=4096&dBlocks=4097');
  expect(settings).toMatchObject({ pBlocks: 4096, dBlocks: defaultSettings.dBlocks });
  expect(problems).toEqual([
    "The address sets dBlocks to '4097': wanted 2 to 4096 blocks (one is the null block).",
  ]);
});
