/**
 * Applies changes of settings to the engines: they continue, join and leave, are emptied, or are rebuilt. The
 * conversation's KV is restored afterwards.
 */
import { messageOf } from '../../../src/errors.ts';
import type { Talk } from './conversation/talk.ts';
import { fetchCode } from './fetch-code.ts';
import { checkedSettings } from './hash.ts';
import { asked, type Settings } from './settings.ts';
import type { Workbench } from './workbench.ts';

export class Changes {
  readonly #bench: Workbench;
  readonly #talk: Talk;
  /** The engines were shown at least once. Before that, settings only decide how they will be built. */
  shown = false;
  /** Settles when earlier changes are applied. Of two changes at once the engines would refuse one. */
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;
  /** The last change of the number of engines. */
  #scaled: Promise<void> | null = null;

  constructor(bench: Workbench, talk: Talk) {
    this.#bench = bench;
    this.#talk = talk;
  }

  /** `anew`: nothing runs and the conversation is empty, so engines may be replaced at once and no KV is restored. */
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
    // A measurement configures the engines itself, so it is stopped first.
    const goOn = !anew && !this.#bench.measures;
    if (goOn && engines.canChangeTo(settings) && differInCount(before, settings)) {
      await this.#scale();
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
    // Not if another change waits: it would empty the engines again.
    if (engines.running && !anew && this.#waiting === 0) await this.#takeAlong();
  }

  /** Stops what runs, then applies changes one after the other. */
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

  /** Engines join and leave while a turn runs. An engine that leaves may wait for the next turn. */
  async #scale(): Promise<void> {
    const { engines, settings } = this.#bench;
    const scaled = engines.scale(settings);
    this.#scaled = scaled;
    try {
      await scaled;
    } catch (error) {
      // A later change may still reach the number that the settings have now.
      if (this.#scaled === scaled) this.#bench.setSettings({ ...this.#bench.settings, ...engines.counts });
      this.#bench.note('warning', messageOf(error));
    }
  }

  /** Returns false if the change was refused; the old settings stay. */
  async #reconfigure(before: Settings, settings: Settings): Promise<boolean> {
    let changed = false;
    await this.#bench.exclusive('Changing the engines', async () => {
      try {
        await this.#bench.engines.configure(settings);
        changed = true;
      } catch (error) {
        // Errors that only the engines find, such as an unknown link name.
        this.#bench.setSettings(before);
        throw error;
      }
    });
    return changed;
  }

  /** Restores the conversation's KV on emptied engines by computing it again. */
  async #takeAlong(): Promise<void> {
    await this.#bench.exclusive(
      'Computing the conversation’s KV again, because the change emptied the engines',
      async (signal) => {
        if (await this.#talk.takeAlong(signal))
          this.#bench.note(
            'info',
            'The change emptied the engines. The conversation’s KV was computed again, so it can continue.',
          );
      },
    );
  }

  /** Empties the engines after all earlier changes, or starts new ones if none run. */
  async empty(): Promise<void> {
    await this.#inTurn(async () => {
      await this.#bench.cancel();
      const { engines, settings } = this.#bench;
      // An earlier start failed: try again.
      if (!engines.running) await this.#bench.startEngines(settings);
      else await this.#bench.exclusive('Emptying the engines', () => engines.configure(settings));
    });
  }

  /** Starts new engines with the same settings, because the model's files have changed or may be available now. */
  async rebuild(): Promise<void> {
    await this.#inTurn(async () => {
      await this.#bench.cancel();
      await this.#talk.forget();
      await this.#bench.startEngines(this.#bench.settings);
    });
  }

  /** Deletes the blocks that the store keeps in this browser's files. */
  async emptyFolder(): Promise<void> {
    const { engines, settings } = this.#bench;
    const { storeDir } = settings;
    if (storeDir === null || this.#bench.refusesChange()) return;
    await this.#inTurn(async () => {
      try {
        await this.#bench.cancel();
        // Closing finishes pending writes before everything is deleted.
        await engines.close();
        const { removeBlocks } = await fetchCode(() => import('./kept-blocks.ts'));
        await removeBlocks(storeDir);
      } catch (error) {
        this.#bench.note('warning', messageOf(error));
      }
      await this.#bench.startEngines(this.#bench.settings);
      if (engines.running) await this.#takeAlong();
    });
  }
}

/** Whether the settings differ at most in the number of engines. */
const differInCount = (before: Settings, { prefill, decode, ...rest }: Settings): boolean =>
  sameEngines({ ...before, prefill, decode }, { ...rest, prefill, decode });

/** Whether the settings differ only in ways that need no change of the engines, apart from the seed. */
export function sameEngines(a: Settings, b: Settings): boolean {
  return (Object.keys(a) as (keyof Settings)[]).every((key) => asked.includes(key) || a[key] === b[key]);
}
