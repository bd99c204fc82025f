/**
 * The page's session: what the controls and lessons may do. The state and the engines are workbench.ts, the conversation is
 * talk.ts, what becomes of the engines as settings change is changes.ts, what is shown of it when is playback.ts, recordings
 * in place of engines are replays.ts; here is which of them acts.
 */
import { messageOf } from '../../../src/errors.ts';
import { Changes, sameEngines } from './changes.ts';
import type { Engines } from './engines.ts';
import { fromHash, toHash } from './hash.ts';
import { reloadIsolated } from './isolation.ts';
import type { Measuring } from './measuring.ts';
import { modelUrl } from './models.ts';
import { Replays } from './replays.ts';
import { defaultSettings, type Settings } from './settings.ts';
import { enginesNeeded, fleetShown, needEngines, once } from './shown.ts';
import { suggest } from './suggestions.ts';
import { whatIsMissing } from './support.ts';
import { Talk } from './talk.ts';
import type { Pointed, Role, Session, SessionActions, SessionState } from './types.ts';
import { Workbench } from './workbench.ts';

type EngineHandle = ReturnType<NonNullable<Engines['running']>['cluster']['engine']>;

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
  readonly #replays = new Replays(this.#bench);
  /** Its engines are there, or why not was said. */
  #started: Promise<void> = Promise.resolve();

  constructor() {
    this.state = this.#bench.state;
    addEventListener('hashchange', () => this.#followHash());
  }

  start(): void {
    this.#started = this.#start();
  }

  async #start(): Promise<void> {
    if (await reloadIsolated()) return;
    await once(() => enginesNeeded.value);
    this.#changes.shown = true;
    const missing = await whatIsMissing();
    if (missing) {
      await this.#replays.instead(missing.message);
      return;
    }
    const { model } = this.#bench.settings;
    if (!this.#bench.engines.shelf.canOpen(model)) {
      this.#bench.setSettings({ ...this.#bench.settings, model: defaultSettings.model });
      this.#bench.note(
        'warning',
        `The files of '${model}' are not in this page any more: drop them again. Until then it runs ${defaultSettings.model}.`,
      );
    }
    let goesOn = false;
    await this.#bench.startEngines(this.#bench.settings, async () => {
      goesOn = await this.#talk.resume();
    });
    const { turns } = this.#bench.settings;
    if (!this.#bench.engines.running || turns === 0 || goesOn) return;
    void this.#talkOnceSeen(turns);
  }

  /** Whoever wanted to measure only has not seen the engines yet, or comes while that goes on. */
  async #talkOnceSeen(turns: number): Promise<void> {
    await once(() => !fleetShown.value);
    await this.#bench.idle();
    if (!this.state.playing.value) await this.#talk.play(turns);
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
    this.pause();
    const { replays, engines } = this.#bench;
    if (replays) {
      await this.configure({ lesson: change.lesson ?? null });
      if (change.lesson) await this.#replays.lesson(change.lesson);
      return;
    }
    await this.#bench.cancel();
    await this.#talk.forget();
    const before = this.#bench.settings;
    await this.#changes.apply(change, true);
    if (!sameEngines(before, this.#bench.settings)) return;
    await this.#bench.exclusive('Emptying both engines', () => engines.configure(this.#bench.settings));
  }

  configure(change: Partial<Settings>): Promise<void> {
    return this.#changes.apply(change);
  }

  emptyFolder(): Promise<void> {
    return this.#changes.emptyFolder();
  }

  editHistory(from: string, to: string): void {
    if (this.#bench.refusesChange()) return;
    const edited = `The history now says '${to}' where it said '${from}': ask about it.`;
    this.#bench.note('info', this.#talk.edit(from, to) > 0 ? edited : `Nobody said '${from}' yet.`);
  }

  async evictPrefill(): Promise<void> {
    await this.#atEngine('prefill', async (engine) => {
      const emptied = await engine.serving.resetPrefixCache();
      if (emptied) this.#bench.note('info', "P's prefix cache is empty: the next turn finds nothing there.");
      else this.#bench.note('warning', 'P keeps its cache while blocks are in use: let the turn end first.');
    });
  }

  async expireHold(): Promise<void> {
    await this.#atEngine('decode', async (engine) => {
      const ended = await engine.lab.expireHolds('decode');
      const what = ended === 1 ? "D's hold ran out" : `${ended} of D's holds ran out`;
      this.#bench.note(
        'info',
        ended > 0 ? `${what}: what P would pull is gone, and P will compute.` : 'D holds nothing for P now.',
      );
    });
  }

  async kill(role: Role): Promise<void> {
    if (this.#bench.refusesChange()) return;
    this.#bench.state.playing.value = false;
    const name = role === 'prefill' ? 'P' : 'D';
    this.#bench.note('warning', `${name} was stopped without a word to the other engine.`);
    const drawn = this.state.drawn[role].peek();
    if (drawn) await this.#bench.engines.kill(drawn.engineId);
  }

  look(role: Role, engineId: string): void {
    this.#bench.state.looked.value = { ...this.state.looked.value, [role]: engineId };
  }

  point(at: Pointed | null): void {
    this.#bench.state.pointed.value = at;
  }

  async revive(): Promise<void> {
    if (this.#bench.refusesChange()) return;
    // Whatever is done builds first what ended.
    await this.#bench.exclusive('Building what ended', async () => {});
  }

  async runRace(): Promise<void> {
    await this.#measure('Racing: recompute against pull', async (measuring) => {
      const history = await this.#talk.history(measuring.signal);
      const question = suggest(measuring.settings.model, history)[0]!;
      const { runRace } = await import('./race.ts');
      await runRace({ ...measuring, history, question });
    });
  }

  async runStall(): Promise<void> {
    await this.#measure('Two users: one is answered, the other pastes a long text', async (measuring) => {
      const { runStall } = await import('./stall.ts');
      await runStall(measuring);
    });
  }

  async runCrossover(): Promise<void> {
    await this.#measure('Measuring both ways over growing histories', async (measuring) => {
      const { runCrossover } = await import('./crossover.ts');
      await runCrossover(measuring);
    });
  }

  async measureCosts(): Promise<void> {
    needEngines();
    await this.#started;
    if (!this.#bench.engines.running) return;
    await this.#measure('Measuring what steps and copies take here', async (measuring) => {
      const { measureCosts } = await import('./costs.ts');
      await measureCosts(measuring);
    });
  }

  async loadModel(source: { files: readonly File[]; name: string } | { url: string }): Promise<void> {
    if (this.#bench.refusesChange()) return;
    try {
      const { shelf } = this.#bench.engines;
      const model = 'url' in source ? modelUrl(source.url) : shelf.drop(source.name, source.files);
      // A model of random weights and one that talks have different things to be asked.
      await this.configure({ model, turns: 0 });
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
    }
  }

  async saveRecording(): Promise<void> {
    await this.#bench.saveRecording();
  }

  loadRecording(file: File): Promise<void> {
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

  /** Runs a measurement, then gives the engines back their settings, whatever happened. */
  async #measure(message: string, run: (measuring: Measuring) => Promise<void>): Promise<void> {
    const bench = this.#bench;
    if (bench.refusesChange()) return;
    bench.state.playing.value = false;
    const { engines, settings } = bench;
    const tools = { emit: bench.emit.bind(bench), now: () => bench.nowMs() };
    await bench.exclusive(message, async (signal) => {
      try {
        await run({ engines, settings, signal, ...tools });
      } finally {
        await engines.configure(settings);
        // What was measured went over the same engines: the conversation gets its KV back.
        bench.status('busy', 'Computing the conversation again, which the measurement pushed out');
        await this.#talk.takeAlong(new AbortController().signal);
      }
    });
  }

  async #atEngine(role: Role, act: (engine: EngineHandle) => Promise<void>): Promise<void> {
    const { running } = this.#bench.engines;
    if (this.#bench.refusesChange() || !running) return;
    try {
      for (const engine of running.cluster.engines)
        if (engine.role === role && !engine.ended) await act(engine);
      await running.recorder.poll();
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
    }
  }

  #followHash(): void {
    if (location.hash === toHash(this.#bench.settings, location.hash)) return;
    const { settings, problems } = fromHash(location.hash);
    for (const problem of problems) this.#bench.note('warning', problem);
    void this.configure(settings);
  }
}
