/** The last things worth saying of a fleet, each for as long as it takes to be read. */
import { type ReadonlySignal, signal } from '@preact/signals';
import { saidMs } from '../session/reading.ts';

interface Said {
  /** Said again it is another. */
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
    }, saidMs(message));
  }
}
