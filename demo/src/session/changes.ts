/**
 * How a change of the settings comes to the engines: they go on, come and go, are emptied, or are built anew; and how the
 * conversation's KV goes along.
 */
import { messageOf } from '../../../src/errors.ts';
import { checkedSettings } from './hash.ts';
import { asked, type Settings } from './settings.ts';
import type { Talk } from './talk.ts';
import type { Workbench } from './workbench.ts';

export class Changes {
  readonly #bench: Workbench;
  readonly #talk: Talk;
  /** Engines were looked at: before, settings only tell how they will be built. */
  shown = false;
  /** Those before have come to the engines: of two at once one would be refused, and only shown. */
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor(bench: Workbench, talk: Talk) {
    this.#bench = bench;
    this.#talk = talk;
  }

  /** `anew`: nothing goes on and nothing was said, so that engines change all at once, and nothing is taken along. */
  async apply(change: Partial<Settings>, anew = false): Promise<void> {
    const before = this.#bench.settings;
    let settings: Settings;
    try {
      settings = checkedSettings(before, change);
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
      return;
    }
    const { engines } = this.#bench;
    const refusal = engines.shelf.refusalOf(settings.model);
    if (refusal !== null) {
      this.#bench.note('warning', refusal);
      settings = { ...settings, model: before.model };
    }
    const same = sameEngines(before, settings);
    if (!this.shown || (same && (before.seed === settings.seed || engines.canChangeTo(settings)))) {
      this.#bench.setSettings(settings);
      return;
    }
    if (this.#bench.refusesChange()) return;
    this.#bench.setSettings(settings);
    // A measurement counts on its engines, and sets them itself: it is stopped.
    const goOn = !anew && !this.#bench.measures;
    if (goOn && engines.canChangeTo(settings) && differInCount(before, settings)) {
      await this.#scale(before);
      return;
    }
    await this.#inTurn(() => this.#change(before, settings, anew));
  }

  async #change(before: Settings, settings: Settings, anew: boolean): Promise<void> {
    const { engines } = this.#bench;
    await this.#bench.cancel();
    if (before.model !== settings.model) await this.#talk.forget();
    if (!engines.canChangeTo(settings)) await this.#bench.startEngines(settings);
    else if (!(await this.#reconfigure(before, settings))) return;
    // The next change would only empty them again.
    if (engines.running && !anew && this.#waiting === 0) await this.#takeAlong();
  }

  /** What runs is stopped now. */
  async #inTurn(change: () => Promise<void>): Promise<void> {
    this.#bench.stop();
    this.#waiting++;
    const done = this.#last.then(() => {
      this.#waiting--;
      return change();
    });
    this.#last = done.catch(() => {});
    await done;
  }

  /** Engines come and go while a turn goes on: who leaves may wait for the next one. */
  async #scale(before: Settings): Promise<void> {
    const { engines, settings } = this.#bench;
    try {
      await engines.scale(settings);
    } catch (error) {
      const { prefill, decode } = before;
      this.#bench.setSettings({ ...this.#bench.settings, prefill, decode });
      this.#bench.note('warning', messageOf(error));
    }
  }

  /** False when it was refused: what was in force stays. */
  async #reconfigure(before: Settings, settings: Settings): Promise<boolean> {
    let changed = false;
    await this.#bench.exclusive('Changing the engines', async () => {
      try {
        await this.#bench.engines.configure(settings);
        changed = true;
      } catch (error) {
        // Found out late, such as a link's name.
        this.#bench.setSettings(before);
        throw error;
      }
    });
    return changed;
  }

  /** Engines that were emptied get the conversation's KV back, by computing it once more. */
  async #takeAlong(): Promise<void> {
    await this.#bench.exclusive(
      'Computing the conversation again: the change emptied the engines',
      async (signal) => {
        if (await this.#talk.takeAlong(signal))
          this.#bench.note(
            'info',
            'The change emptied both engines. The conversation was computed again, so that it goes on.',
          );
      },
    );
  }

  /** Engines with nothing in them: those that are there, once all that was changed before has come to them, or new ones. */
  async empty(): Promise<void> {
    await this.#inTurn(async () => {
      await this.#bench.cancel();
      const { engines, settings } = this.#bench;
      // They could not be started: once more.
      if (!engines.running) await this.#bench.startEngines(settings);
      else await this.#bench.exclusive('Emptying both engines', () => engines.configure(settings));
    });
  }

  /** New engines with the same settings: the model of this name has other files now, or may be had now. Nothing is taken along. */
  async rebuild(): Promise<void> {
    await this.#inTurn(async () => {
      await this.#bench.cancel();
      await this.#talk.forget();
      await this.#bench.startEngines(this.#bench.settings);
    });
  }

  /** Removes what the store keeps in this browser's files. */
  async emptyFolder(): Promise<void> {
    const { engines, settings } = this.#bench;
    const { storeDir } = settings;
    if (storeDir === null || this.#bench.refusesChange()) return;
    await this.#inTurn(async () => {
      try {
        await this.#bench.cancel();
        // What is still to be written is, before all of it goes.
        await engines.close();
        const { removeBlocks } = await import('./kept-blocks.ts');
        await removeBlocks(storeDir);
      } catch (error) {
        this.#bench.note('warning', messageOf(error));
      }
      await this.#bench.startEngines(this.#bench.settings);
      if (engines.running) await this.#takeAlong();
    });
  }
}

/** At most in how many engines there are. */
const differInCount = (before: Settings, { prefill, decode, ...rest }: Settings): boolean =>
  sameEngines({ ...before, prefill, decode }, { ...rest, prefill, decode });

/** Only what the page does, or asks for, differs; of the seed the engines know more. */
export function sameEngines(a: Settings, b: Settings): boolean {
  return (Object.keys(a) as (keyof Settings)[]).every((key) => asked.includes(key) || a[key] === b[key]);
}
