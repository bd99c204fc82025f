/** Recordings shown instead of engines: the shipped ones if engines cannot run, and the user's own files. */
import { messageOf } from '../../../../src/errors.ts';
import type { Talk } from '../conversation/talk.ts';
import { fetchCode } from '../fetch-code.ts';
import { fromHash } from '../hash.ts';
import type { Settings } from '../settings.ts';
import type { Workbench } from '../workbench.ts';

const SHIPPED_RECORDING = 'recordings/shipped.json';
const ofLesson = (lesson: number): string => `recordings/lesson-${lesson}.json`;

export class Replays {
  readonly #bench: Workbench;
  readonly #talk: Talk;
  /** Number of requested recordings. One that arrives after a newer request is dropped. */
  #wanted = 0;

  constructor(bench: Workbench, talk: Talk) {
    this.#bench = bench;
    this.#talk = talk;
  }

  /** Shows the shipped recording. `missing`: why engines cannot run here. */
  async instead(missing: string): Promise<void> {
    this.#bench.missing = missing;
    try {
      await this.#shipped(this.#bench.settings.lesson);
    } catch (error) {
      this.#bench.status(
        'failed',
        `${missing} The recorded run could not be loaded either: ${messageOf(error)}.`,
      );
    }
  }

  /** The counterpart of a new conversation if no engines run. */
  async begin(change: Partial<Settings>): Promise<void> {
    const { state, settings, replays, missing } = this.#bench;
    if (state.replay.value?.why === null) await this.end(change);
    // The shown recording goes back to its start at once.
    else if (replays && change.lesson && change.lesson === settings.lesson) this.#bench.playback.seek(0);
    else if (change.lesson) await this.#lesson(change.lesson);
    else if (replays) this.#bench.setSettings({ ...settings, lesson: null });
    // No recording yet: it failed to load, or is still loading.
    else await this.instead(missing!);
  }

  /** Shows a lesson's recording. If it cannot be loaded, the page stays as it is. */
  async #lesson(lesson: number): Promise<void> {
    try {
      await this.#shipped(lesson);
    } catch (error) {
      this.#bench.note('warning', `${messageOf(error)}.`);
    }
  }

  /** Shows the user's own recording; the engines end. */
  async file(file: File): Promise<void> {
    try {
      const { parseRecording, lessonOf } = await fetchCode(() => import('./recordings.ts'));
      const recording = parseRecording(await file.text(), file.name);
      await this.#bench.cancel();
      await this.#bench.engines.close();
      this.#wanted++;
      this.#bench.emit({
        kind: 'settings',
        atMs: this.#bench.nowMs(),
        settings: { lesson: lessonOf(recording) },
      });
      this.#bench.playback.load(recording, this.#bench.missing);
      this.#bench.playback.play();
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
    }
  }

  /** Restarts the engines with the address's settings and this change. */
  async end(change: Partial<Settings>): Promise<void> {
    await this.#talk.forget();
    this.#bench.playback.unload();
    this.#bench.setSettings({ ...fromHash(location.hash).settings, ...change });
    await this.#bench.startEngines(this.#bench.settings);
  }

  /** null: the recording that opens the page. */
  async #shipped(lesson: number | null): Promise<void> {
    const wanted = ++this.#wanted;
    const name = lesson === null ? SHIPPED_RECORDING : ofLesson(lesson);
    const response = await fetch(name).catch((cause: unknown) => {
      throw new Error(`${name} could not be loaded: its server cannot be reached`, { cause });
    });
    if (!response.ok) throw new Error(`${name} could not be loaded: the server answered ${response.status}`);
    const { parseRecording } = await fetchCode(() => import('./recordings.ts'));
    const recording = parseRecording(await response.text(), name);
    if (wanted !== this.#wanted) return;
    const title = lesson === null ? 'both ways, then the same one way' : `lesson ${lesson}`;
    const { state, replays } = this.#bench;
    // Loading clears the notes, but those from before the first recording are about the address.
    const ofAddress = replays ? [] : state.notes.peek();
    this.#bench.playback.load({ ...recording, title }, this.#bench.missing);
    state.notes.value = [...ofAddress, ...state.notes.peek()];
    this.#bench.setSettings({ ...this.#bench.settings, lesson });
    // A lesson's recording waits for the reader.
    if (lesson === null) this.#bench.playback.play();
  }
}
