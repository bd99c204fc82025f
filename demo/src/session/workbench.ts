/**
 * What every part of the session stands on: the state and the events that make it, the settings and the address, the
 * engines, and the rule that one thing is done at a time.
 */
import { messageOf } from '../../../src/errors.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import type { SessionEvent } from '../../../src/recording/events.ts';
import { lessonSettings } from '../lessons/list.ts';
import { changeHash, type HashChange } from './address.ts';
import { Engines } from './engines.ts';
import { fromHash, toHash } from './hash.ts';
import { Playback } from './playback.ts';
import { MOST_EVENTS } from './played-events.ts';
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
  /** Engines are in modes and numbers of a measurement's own. */
  measures = false;
  readonly #originMs = systemClock.now();
  /** What runs now; null while the next thing can begin. */
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

  /** Milliseconds since the session began. What is shown may be behind: the playback knows. */
  nowMs(): number {
    return systemClock.now() - this.#originMs;
  }

  /** A recording is shown: engines run no more. */
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

  /** All at once: of several notes the last ones alone are shown. */
  warn(problems: readonly string[]): void {
    if (problems.length > 0) this.note('warning', problems.join(' '));
  }

  status(phase: 'ready' | 'busy' | 'failed', message: string): void {
    this.emit({ kind: 'status', atMs: this.nowMs(), phase, message, progress: null });
  }

  /** Shows them, here and in the address; changes no engine. */
  setSettings(settings: Settings): void {
    this.emit({ kind: 'settings', atMs: this.nowMs(), settings: { ...settings } });
    changeHash(this.#toHash);
  }

  readonly #toHash: HashChange = (hash) =>
    toHash(this.replays ? this.#besideRecording(this.settings) : this.settings, hash);

  /** Of a recording's settings the address takes what is the onlooker's own, and keeps the rest for the engines. */
  #besideRecording({ lesson, speed, projector }: Settings): Settings {
    const kept = fromHash(location.hash).settings;
    const base = lesson === kept.lesson ? kept : { ...defaultSettings, ...lessonSettings(lesson) };
    return { ...base, speed, projector };
  }

  /** Where no engines run nothing can be changed: says so. */
  refusesChange(): boolean {
    if (!this.replays && this.missing === null) return false;
    const recorded = 'This is a recording: it can be played, paused and searched, but not changed.';
    this.note('info', this.replays ? recorded : this.missing!);
    return true;
  }

  /** Ends the engines and builds new ones. What was recorded ends with them. `then`: before anything else can be done. */
  async startEngines(settings: Settings, then: () => Promise<void> = async () => {}): Promise<void> {
    await this.#begin(async () => {
      try {
        this.playback.forget();
        clearEngines(this.state);
        clearMeasured(this.state);
        // For a recording; what was set meanwhile is shown already, and comes to the engines after these.
        this.emit({ kind: 'settings', atMs: this.nowMs(), settings: { ...this.settings } });
        await this.engines.start(settings);
        await then();
        this.status('ready', 'Ready');
      } catch (error) {
        this.status('failed', messageOf(error));
      }
    });
  }

  /** One thing at a time; what goes wrong becomes a note, and engines that ended are built anew. */
  async exclusive(message: string, run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#task) {
      this.note('info', 'Something runs already: stop it first, or wait for its end.');
      return;
    }
    this.playback.toNow();
    await this.#begin((signal) => this.#guarded(message, () => run(signal)));
  }

  stop(): void {
    this.state.playing.value = false;
    this.#task?.abort.abort(new Error('It was stopped.'));
    if (!this.replays) this.playback.toNow();
  }

  /** Stops what runs, and waits for its end. */
  async cancel(): Promise<void> {
    this.stop();
    while (this.#task) {
      await this.#task.done;
      this.playback.toNow();
    }
  }

  /** Resolves when nothing runs, nor follows at once on what did. */
  async idle(): Promise<void> {
    do {
      await this.#task?.done;
      await systemClock.sleep(0);
    } while (this.#task);
  }

  /** All until now; what writes it is fetched when first asked for. */
  async saveRecording(): Promise<void> {
    const { model, mode } = this.settings;
    const turns = this.state.turns.value.length;
    const title = `${model}, ${mode}, ${turns} ${turns === 1 ? 'turn' : 'turns'}`;
    const { events, cut } = this.playback.told();
    try {
      const { download, recordingOf } = await import('./log.ts');
      download(
        `kvferry-${model.replace(/[^\w.-]+/g, '-')}-${mode}.json`,
        JSON.stringify(recordingOf(events, title), toMicroseconds),
      );
      if (cut) this.note('warning', CUT);
    } catch (error) {
      this.note('warning', messageOf(error));
    }
  }

  async #begin(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    // Engines that two build at once would be there twice, half of them for ever.
    while (this.#task) await this.#task.done;
    const abort = new AbortController();
    const done = (async () => {
      await run(abort.signal);
      // What comes next begins when this was seen.
      if (!abort.signal.aborted) await this.playback.caughtUp();
      this.#task = null;
    })();
    this.#task = { abort, done };
    await done;
  }

  async #guarded(message: string, run: () => Promise<void>): Promise<void> {
    try {
      await this.engines.revive();
      this.status('busy', message);
      await run();
    } catch (error) {
      this.note('warning', messageOf(error));
    }
    try {
      await this.engines.revive();
      if (this.engines.running) this.status('ready', 'Ready');
    } catch (error) {
      this.status('failed', `An engine could not be built anew: ${messageOf(error)}`);
    }
  }
}

const CUT = `The recording ends after its first ${MOST_EVENTS} events, about an hour of talk. The page loaded again begins another.`;

/** Times to the microsecond: no clock here knows more, and a recording is a third smaller. */
const toMicroseconds = (_: string, value: unknown): unknown =>
  typeof value === 'number' ? Math.round(value * 1000) / 1000 : value;
