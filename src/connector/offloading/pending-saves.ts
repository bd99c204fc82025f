/** What is to be offered to the store with the next step, in order. */
import type { Save } from './metadata.ts';

type RequestSave = Save & { requestId: string };

export class PendingSaves {
  #saves: RequestSave[] = [];
  /** Numbers: given, and taken. */
  #last = 0;
  #taken = 0;

  get size(): number {
    return this.#saves.length;
  }

  add(save: Omit<RequestSave, 'number'>): void {
    this.#saves.push({ ...save, number: ++this.#last });
  }

  /** Of a request that gave its blocks back: all, or only those of windows. */
  drop(requestId: string, which: 'all' | 'windows'): void {
    this.#saves = this.#saves.filter(
      (save) => save.requestId !== requestId || (which === 'windows' && !save.window),
    );
  }

  take(): readonly RequestSave[] {
    const saves = this.#saves;
    this.#saves = [];
    this.#taken = saves.at(-1)?.number ?? this.#taken;
    return saves;
  }

  /** Whoever has heard of the offer of this number, or a later one, has heard of all of the request's. */
  lastOf(requestId: string): number {
    return this.#saves.findLast((save) => save.requestId === requestId)?.number ?? this.#taken;
  }
}
