/** Recordings in place of engines: those that come with the page, where engines cannot run, and a visitor's own. */
import { messageOf } from '../../../src/errors.ts';
import { fromHash } from './hash.ts';
import type { Settings } from './settings.ts';
import type { Talk } from './talk.ts';
import type { Workbench } from './workbench.ts';

const SHIPPED_RECORDING = 'recordings/shipped.json';
const ofLesson = (lesson: number): string => `recordings/lesson-${lesson}.json`;

export class Replays {
  readonly #bench: Workbench;
  readonly #talk: Talk;
  /** Why engines cannot run here; null: they can. */
  #missing: string | null = null;

  constructor(bench: Workbench, talk: Talk) {
    this.#bench = bench;
    this.#talk = talk;
  }

  /** `missing`: why engines cannot run here. */
  async instead(missing: string): Promise<void> {
    this.#missing = missing;
    try {
      await this.#shipped(this.#bench.settings.lesson);
    } catch (error) {
      this.#bench.status(
        'failed',
        `${missing} The recorded run could not be loaded either: ${messageOf(error)}.`,
      );
    }
  }

  /** Where it cannot be loaded, what is shown stays. */
  async lesson(lesson: number): Promise<void> {
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
      this.#bench.playback.load(recording, this.#missing);
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
    const name = lesson === null ? SHIPPED_RECORDING : ofLesson(lesson);
    const response = await fetch(name);
    if (!response.ok) throw new Error(`${name} could not be loaded: the server answered ${response.status}`);
    const { parseRecording } = await import('./recordings.ts');
    const recording = parseRecording(await response.text(), name);
    const title = lesson === null ? 'both ways, then the same one way' : `what lesson ${lesson} shows`;
    this.#bench.playback.load({ ...recording, title }, this.#missing);
    this.#bench.setSettings({ ...this.#bench.settings, lesson });
    // A lesson waits for its reader.
    if (lesson === null) this.#bench.playback.play();
  }
}
