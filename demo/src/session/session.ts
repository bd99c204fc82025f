/**
 * The page's session: the actions of controls and lessons, delegated to workbench.ts (state and engines), talk.ts
 * (conversation), changes.ts (changes of settings), playback.ts (the shown time), replays.ts (recordings) and breaking.ts
 * (engines killed or emptied on purpose).
 */
import { messageOf } from '../../../src/errors.ts';
import { Breaking } from './breaking.ts';
import { Changes, sameEngines } from './changes.ts';
import { suggest } from './conversation/suggestions.ts';
import { Talk } from './conversation/talk.ts';
import type { Measuring } from './experiments/measuring.ts';
import { fetchCode } from './fetch-code.ts';
import { fromHash, toHash } from './hash.ts';
import { reloadIsolated } from './isolation.ts';
import { modelUrl } from './models.ts';
import { Replays } from './playback/replays.ts';
import { defaultSettings, type Settings } from './settings.ts';
import { enginesNeeded, fleetShown, needEngines, once } from './shown.ts';
import { whatIsMissing } from './support.ts';
import type { Pointed, Role, Session, SessionActions, SessionState } from './types.ts';
import { Workbench } from './workbench.ts';

export function createSession(): Session {
  const actions = new PageActions();
  actions.start();
  return { state: actions.state, actions };
}

class PageActions implements SessionActions {
  readonly state: SessionState;
  readonly #bench = new Workbench();
  readonly #talk = new Talk(this.#bench);
  readonly #changes = new Changes(this.#bench, this.#talk);
  readonly #replays = new Replays(this.#bench, this.#talk);
  readonly #breaking = new Breaking(this.#bench);
  /** Resolves when the engines run, or when it was reported why they do not. */
  #started: Promise<void> = Promise.resolve();
  /** The user started something, so the page no longer plays on its own. */
  #begun = false;
  /** Number of begin() calls, and the changes of those that are not applied yet: the last call applies them all. */
  #begins = 0;
  #toBegin: Partial<Settings> = {};

  constructor() {
    this.state = this.#bench.state;
    addEventListener('hashchange', ({ oldURL }) => void this.#followHash(oldURL));
  }

  start(): void {
    this.#started = this.#start();
  }

  async #start(): Promise<void> {
    if (await reloadIsolated()) return;
    await once(() => enginesNeeded.value);
    this.#changes.shown = true;
    const refusal = this.#bench.engines.shelf.refusalOf(this.#bench.settings.model);
    if (refusal !== null) {
      this.#bench.setSettings({ ...this.#bench.settings, model: defaultSettings.model });
      this.#bench.note('warning', `${refusal} Until then the page uses ${defaultSettings.model}.`);
    }
    const missing = await whatIsMissing();
    if (missing) {
      await this.#replays.instead(missing.message);
      return;
    }
    let goesOn = false;
    await this.#bench.startEngines(this.#bench.settings, async () => {
      goesOn = await this.#talk.resume();
    });
    if (!this.#bench.engines.running || goesOn) return;
    void this.#talkOnceSeen();
  }

  /** Plays when the engines are shown and idle: they may have been started only for a measurement. */
  async #talkOnceSeen(): Promise<void> {
    await once(() => !fleetShown.value);
    await this.#bench.idle();
    const { turns } = this.#bench.settings;
    if (turns > 0 && !this.#begun && !this.state.playing.value) await this.#talk.play(turns);
  }

  async ask(question: string): Promise<void> {
    const asked = question.trim();
    if (asked !== '' && !this.#bench.refusesChange()) await this.#talk.ask(asked);
  }

  stop(): void {
    this.#bench.stop();
  }

  play(): void {
    if (this.#bench.replays) this.#bench.playback.play();
    else if (!this.state.playing.value) void this.#talk.play();
  }

  pause(): void {
    if (this.#bench.replays) this.#bench.playback.pause();
    else this.#bench.state.playing.value = false;
  }

  async step(): Promise<void> {
    if (this.#bench.replays) this.#bench.playback.stepTurn();
    else await this.#talk.step();
  }

  async reset(): Promise<void> {
    if (this.#bench.replays) this.#bench.playback.seek(0);
    else await this.begin({});
  }

  async begin(change: Partial<Settings>): Promise<void> {
    this.#begun = true;
    this.pause();
    const { replays, missing } = this.#bench;
    if (replays || missing !== null) {
      await this.#replays.begin(change);
      return;
    }
    const begin = ++this.#begins;
    this.#toBegin = { ...this.#toBegin, ...change };
    await this.#bench.cancel();
    await this.#talk.forget();
    // An earlier call may have waited longer than a later one.
    if (begin !== this.#begins) return;
    const asked = this.#toBegin;
    this.#toBegin = {};
    const before = this.#bench.settings;
    await this.#changes.apply(asked, true);
    if (sameEngines(before, this.#bench.settings)) await this.#changes.empty();
  }

  endReplay(): Promise<void> {
    return this.#replays.end({});
  }

  configure(change: Partial<Settings>): Promise<void> {
    return this.#changes.apply(change);
  }

  emptyFolder(): Promise<void> {
    return this.#changes.emptyFolder();
  }

  editHistory(from: string, to: string): void {
    if (this.#bench.refusesChange()) return;
    const edited = `The history now says '${to}' instead of '${from}'. Ask about it.`;
    this.#bench.note('info', this.#talk.edit(from, to) > 0 ? edited : `'${from}' is not in the history.`);
  }

  evictPrefill(): Promise<void> {
    return this.#breaking.evictPrefill();
  }

  expireHold(): Promise<void> {
    return this.#breaking.expireHold();
  }

  kill(role: Role): Promise<void> {
    return this.#breaking.kill(role);
  }

  revive(): Promise<void> {
    return this.#breaking.revive();
  }

  look(role: Role, engineId: string): void {
    this.#bench.state.looked.value = { ...this.state.looked.value, [role]: engineId };
  }

  point(at: Pointed | null): void {
    this.#bench.state.pointed.value = at;
  }

  async runRace(): Promise<void> {
    await this.#measure('Racing: recompute against pull', async (measuring) => {
      const history = await this.#talk.history(measuring.signal);
      const question = suggest(measuring.settings.model, history)[0]!;
      const { runRace } = await fetchCode(() => import('./experiments/race.ts'));
      await runRace({ ...measuring, history, question });
    });
  }

  async runStall(): Promise<void> {
    await this.#measure('Two users: one gets an answer, the other pastes a long text', async (measuring) => {
      const { runStall } = await fetchCode(() => import('./experiments/stall.ts'));
      await runStall(measuring);
    });
  }

  async runCrossover(): Promise<void> {
    await this.#measure('Measuring both ways with growing histories', async (measuring) => {
      const { runCrossover } = await fetchCode(() => import('./experiments/crossover.ts'));
      await runCrossover(measuring);
    });
  }

  async measureCosts(): Promise<void> {
    needEngines();
    await this.#started;
    if (!this.#bench.engines.running) return;
    await this.#measure('Measuring the times of steps and copies', async (measuring) => {
      const { measureCosts } = await fetchCode(() => import('./experiments/costs.ts'));
      await measureCosts(measuring);
    });
  }

  async loadModel(source: { files: readonly File[]; name: string } | { url: string }): Promise<void> {
    if (this.#bench.refusesChange()) return;
    try {
      const { shelf } = this.#bench.engines;
      const model = 'url' in source ? modelUrl(source.url) : shelf.drop(source.name, source.files);
      const known = model === this.#bench.settings.model;
      // The shipped conversation may not suit another model, so nothing is played.
      await this.configure({ model, turns: 0 });
      // The same name: dropped files may differ, and a failed fetch is tried again.
      if (known && ('files' in source || this.state.status.value.phase === 'failed'))
        await this.#changes.rebuild();
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
    }
  }

  async saveRecording(): Promise<void> {
    await this.#bench.saveRecording();
  }

  loadRecording(file: File): Promise<void> {
    this.#begun = true;
    return this.#replays.file(file);
  }

  playTime(): void {
    this.#bench.playback.play();
  }

  pauseTime(): void {
    this.#bench.playback.pause();
  }

  seek(atMs: number): void {
    this.#bench.playback.seek(atMs);
  }

  stepTime(): void {
    this.#bench.playback.step();
  }

  toNow(): void {
    this.#bench.playback.toNow();
  }

  /** Runs a measurement, then always restores the engines' settings and the conversation's KV. */
  async #measure(message: string, run: (measuring: Measuring) => Promise<void>): Promise<void> {
    const bench = this.#bench;
    if (bench.refusesChange()) return;
    bench.state.playing.value = false;
    const { engines, settings } = bench;
    const tools = { emit: bench.emit.bind(bench), now: () => bench.nowMs() };
    await bench.exclusive(message, async (signal) => {
      bench.measures = true;
      try {
        await run({ engines, settings, signal, ...tools });
      } finally {
        bench.measures = false;
        await engines.configure(settings);
        // The measurement ran on the same engines and displaced the conversation's KV.
        bench.status('busy', 'Computing the conversation’s KV again, which the measurement displaced');
        await this.#talk.takeAlong(new AbortController().signal);
      }
    });
  }

  async #followHash(before: string): Promise<void> {
    if (location.hash === toHash(this.#bench.settings, location.hash)) return;
    // Coming from the fleet view, the engines may be starting just now.
    if (enginesNeeded.value) await this.#started;
    const { settings, problems } = fromHash(location.hash);
    // During a recording, only a change of the page's settings in the address counts, not a change of view.
    const own = (hash: string): string => toHash(fromHash(hash).settings, '');
    if (this.#bench.replays && own(location.hash) === own(new URL(before).hash)) return;
    this.#bench.warn(problems);
    const { lesson } = settings;
    // A new lesson begins as from the menu, with an empty conversation.
    if (lesson !== null && lesson !== this.#bench.settings.lesson) await this.begin(settings);
    else await this.configure(settings);
  }
}
