/**
 * Shared by all parts of the session: the state and its events, settings and address, the engines, and the rule that only
 * one task runs at a time.
 */
import { messageOf } from '../../../src/errors.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import type { SessionEvent } from '../../../src/recording/events.ts';
import { lessonSettings } from '../lessons/list.ts';
import { changeHash, type HashChange } from './address.ts';
import { Engines } from './engines.ts';
import { fetchCode } from './fetch-code.ts';
import { fromHash, toHash } from './hash.ts';
import { Playback } from './playback/playback.ts';
import { MOST_EVENTS } from './playback/played-events.ts';
import { defaultSettings, type Settings } from './settings.ts';
import { clearEngines, clearMeasured, createState, type WritableState } from './state.ts';

interface Task {
  abort: AbortController;
  done: Promise<void>;
}

export class Workbench {
  readonly state: WritableState;
  readonly engines: Engines;
  readonly playback: Playback;
  /** Why engines cannot run here; null: they can. */
  missing: string | null = null;
  /** A measurement has configured the engines in its own way. */
  measures = false;
  readonly #originMs = systemClock.now();
  /** The running task; null while none runs. */
  #task: Task | null = null;

  constructor() {
    const { settings, problems } = fromHash(location.hash);
    this.state = createState(
      () => this.playback.nowMs(),
      settings,
      (transfer) => this.playback.endOf(transfer),
    );
    this.playback = new Playback(this.state, () => this.nowMs());
    this.engines = new Engines(
      (event) => this.emit(event),
      this.#originMs,
      () => this.busy,
    );
    this.warn(problems);
  }

  get settings(): Settings {
    return this.state.settings.value;
  }

  /** Milliseconds since the session began. The shown time (playback.nowMs()) may be behind. */
  nowMs(): number {
    return systemClock.now() - this.#originMs;
  }

  /** A recording is shown, and no engines run. */
  get replays(): boolean {
    return this.playback.recording !== null;
  }

  get busy(): boolean {
    return this.#task !== null;
  }

  emit(event: SessionEvent): void {
    this.playback.hear(event);
  }

  note(level: 'info' | 'warning', message: string): void {
    this.playback.say({ kind: 'note', atMs: this.nowMs(), level, message });
  }

  /** Puts several problems into one note, because only the last notes are shown. */
  warn(problems: readonly string[]): void {
    if (problems.length > 0) this.note('warning', problems.join(' '));
  }

  status(phase: 'ready' | 'busy' | 'failed', message: string): void {
    this.emit({ kind: 'status', atMs: this.nowMs(), phase, message, progress: null });
  }

  /** Sets the settings on the page and in the address. Does not change engines. */
  setSettings(settings: Settings): void {
    this.emit({ kind: 'settings', atMs: this.nowMs(), settings: { ...settings } });
    changeHash(this.#toHash);
  }

  readonly #toHash: HashChange = (hash) =>
    toHash(this.replays ? this.#besideRecording(this.settings) : this.settings, hash);

  /** During a recording, the address keeps the engines' settings and takes only those that the viewer chooses. */
  #besideRecording({ lesson, speed, projector }: Settings): Settings {
    const kept = fromHash(location.hash).settings;
    const base = lesson === kept.lesson ? kept : { ...defaultSettings, ...lessonSettings(lesson) };
    return { ...base, speed, projector };
  }

  /** If no engines run, nothing can be changed: reports that and returns true. */
  refusesChange(): boolean {
    if (!this.replays && this.missing === null) return false;
    const recorded = 'This is a recording. You can play, pause and seek it, but not change it.';
    this.note('info', this.replays ? recorded : this.missing!);
    return true;
  }

  /** Ends the engines and starts new ones; the event log starts again. `then` runs before any other task. */
  async startEngines(settings: Settings, then: () => Promise<void> = async () => {}): Promise<void> {
    await this.#begin(async () => {
      try {
        this.playback.forget();
        clearEngines(this.state);
        clearMeasured(this.state);
        // For recordings. Settings changed meanwhile are already shown and are applied to the engines afterwards.
        this.emit({ kind: 'settings', atMs: this.nowMs(), settings: { ...this.settings } });
        await this.engines.start(settings);
        await then();
        this.status('ready', 'Ready');
      } catch (error) {
        this.status('failed', messageOf(error));
      }
    });
  }

  /** Runs a task, unless one runs already. Errors become notes; engines that have ended are restarted before and after. */
  async exclusive(message: string, run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#task) {
      this.note('info', 'Something is already running: stop it, or wait until it ends.');
      return;
    }
    this.playback.toNow();
    await this.#begin((signal) => this.#guarded(message, signal, run));
  }

  stop(): void {
    this.state.playing.value = false;
    this.#task?.abort.abort(new Error('It was stopped.'));
    if (!this.replays) this.playback.toNow();
  }

  /** Stops the running task and waits for its end. */
  async cancel(): Promise<void> {
    this.stop();
    while (this.#task) {
      await this.#task.done;
      this.playback.toNow();
    }
  }

  /** Resolves when nothing runs and nothing follows immediately. */
  async idle(): Promise<void> {
    do {
      await this.#task?.done;
      await systemClock.sleep(0);
    } while (this.#task);
  }

  /** Saves all events so far as a file. */
  async saveRecording(): Promise<void> {
    const { model, mode } = this.settings;
    const turns = this.state.turns.value.length;
    const title = `${model}, ${mode}, ${turns} ${turns === 1 ? 'turn' : 'turns'}`;
    const { events, cut } = this.playback.told();
    try {
      const { download, savedText } = await fetchCode(() => import('./playback/log.ts'));
      download(`kvferry-${model.replace(/[^\w.-]+/g, '-')}-${mode}.json`, savedText(events, title));
      if (cut) this.note('warning', CUT);
    } catch (error) {
      this.note('warning', messageOf(error));
    }
  }

  async #begin(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    // Two tasks that start engines at once would leave a second set running forever.
    while (this.#task) await this.#task.done;
    const abort = new AbortController();
    const done = (async () => {
      await run(abort.signal);
      // The next task begins when this one has been shown.
      if (!abort.signal.aborted) await this.playback.caughtUp();
      this.#task = null;
    })();
    this.#task = { abort, done };
    await done;
  }

  async #guarded(
    message: string,
    signal: AbortSignal,
    run: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    try {
      await this.engines.revive();
      this.status('busy', message);
      await run(signal);
    } catch (error) {
      this.note('warning', signal.aborted ? `Stopped: ${message}.` : messageOf(error));
    }
    try {
      await this.engines.revive();
      if (this.engines.running) this.status('ready', 'Ready');
    } catch (error) {
      this.status('failed', `An engine could not be restarted: ${messageOf(error)}`);
    }
  }
}

const CUT = `The recording has only the first ${MOST_EVENTS} events, about an hour of chat. Reload the page to begin a new one.`;
