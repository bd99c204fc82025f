/** Offers to the store that are due with the next step, in order. */
import type { Save } from './metadata.ts';

type RequestSave = Save & { requestId: string };

export class PendingSaves {
  #saves: RequestSave[] = [];
  /** Last number assigned, and last number taken. */
  #last = 0;
  #taken = 0;

  get size(): number {
    return this.#saves.length;
  }

  add(save: Omit<RequestSave, 'number'>): void {
    this.#saves.push({ ...save, number: ++this.#last });
  }

  /** Drops offers of a request whose blocks were freed: all, or only those of windows. */
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

  /** An offer number: whoever has received this offer, or a later one, has received all offers of the request. */
  lastOf(requestId: string): number {
    return this.#saves.findLast((save) => save.requestId === requestId)?.number ?? this.#taken;
  }
}
