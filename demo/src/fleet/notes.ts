/** The fleet's last notes. Each is shown for the time it takes to read it. */
import { type ReadonlySignal, signal } from '@preact/signals';
import { noteMs } from '../session/reading.ts';

interface Said {
  /** A repeated message gets a new id. */
  id: number;
  message: string;
}

const MOST = 3;

export class Notes {
  readonly #said = signal<readonly Said[]>([]);
  #count = 0;

  get said(): ReadonlySignal<readonly Said[]> {
    return this.#said;
  }

  say(message: string): void {
    const said = { id: ++this.#count, message };
    this.#said.value = [...this.#said.value.filter((each) => each.message !== message), said].slice(-MOST);
    setTimeout(() => {
      this.#said.value = this.#said.value.filter((each) => each !== said);
    }, noteMs(message));
  }
}
