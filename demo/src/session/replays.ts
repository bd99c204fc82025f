/** Recordings in place of engines: those that come with the page, where engines cannot run, and a visitor's own. */
import { messageOf } from '../../../src/errors.ts';
import { fromHash } from './hash.ts';
import { withoutLesson } from './onlooker.ts';
import type { Settings } from './settings.ts';
import type { Talk } from './talk.ts';
import type { Workbench } from './workbench.ts';

const SHIPPED_RECORDING = 'recordings/shipped.json';
const ofLesson = (lesson: number): string => `recordings/lesson-${lesson}.json`;

export class Replays {
  readonly #bench: Workbench;
  readonly #talk: Talk;
  /** Grows with each that is wanted: one that comes after a newer one is not shown. */
  #wanted = 0;

  constructor(bench: Workbench, talk: Talk) {
    this.#bench = bench;
    this.#talk = talk;
  }

  /** `missing`: why engines cannot run here. */
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

  /** What takes the place of a new conversation where no engines run. */
  async begin(change: Partial<Settings>): Promise<void> {
    const { state, settings, replays, missing } = this.#bench;
    if (state.replay.value?.why === null) await this.end(change);
    // The one that is shown is at its beginning at once: nobody sees its end before.
    else if (replays && change.lesson && change.lesson === settings.lesson) this.#bench.playback.seek(0);
    else if (change.lesson) await this.#lesson(change.lesson);
    else if (replays) this.#bench.setSettings({ ...settings, lesson: null });
    // It could not be loaded, or is still on its way.
    else await this.instead(missing!);
  }

  /** Where it cannot be loaded, what is shown stays. */
  async #lesson(lesson: number): Promise<void> {
    try {
      await this.#shipped(lesson);
    } catch (error) {
      this.#bench.note('warning', `${messageOf(error)}.`);
    }
  }

  /** A visitor's own: the engines end. */
  async file(file: File): Promise<void> {
    try {
      const { parseRecording } = await import('./recordings.ts');
      const recording = parseRecording(await file.text(), file.name);
      await this.#bench.cancel();
      await this.#bench.engines.close();
      this.#wanted++;
      // It is of the lesson that it names, if it names one.
      this.#bench.emit({ kind: 'settings', atMs: this.#bench.nowMs(), settings: { lesson: null } });
      this.#bench.playback.load(recording, this.#bench.missing);
      this.#bench.playback.play();
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
    }
  }

  /** The engines come back, by what the address says and this change of it. */
  async end(change: Partial<Settings>): Promise<void> {
    await this.#talk.forget();
    this.#bench.playback.unload();
    this.#bench.setSettings({ ...fromHash(location.hash).settings, ...change });
    await this.#bench.startEngines(this.#bench.settings);
  }

  /** null: no lesson's, but the one that opens the page. */
  async #shipped(lesson: number | null): Promise<void> {
    const wanted = ++this.#wanted;
    const name = lesson === null ? SHIPPED_RECORDING : ofLesson(lesson);
    const response = await fetch(name);
    if (!response.ok) throw new Error(`${name} could not be loaded: the server answered ${response.status}`);
    const { parseRecording } = await import('./recordings.ts');
    const recording = parseRecording(await response.text(), name);
    if (wanted !== this.#wanted) return;
    const title = lesson === null ? 'both ways, then the same one way' : `what lesson ${lesson} shows`;
    // Which lesson is shown is the page's to say, here and as long as it is replayed.
    const events = recording.events.map(withoutLesson);
    this.#bench.playback.load({ ...recording, events, title }, this.#bench.missing);
    this.#bench.setSettings({ ...this.#bench.settings, lesson });
    // A lesson waits for its reader.
    if (lesson === null) this.#bench.playback.play();
  }
}
