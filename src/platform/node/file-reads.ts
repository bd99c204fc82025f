/**
 * Reading many small files: at once, in the thread itself, as long as each takes no time to speak of, which spares the pool's
 * threads and a piece of memory a file. A thread that serves others is not held up by a slow disk: every run of reads begins
 * with one that does not block, the first slow one is the last that does, and after a few milliseconds others have their turn.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../engine/types.ts';
import { systemClock } from '../clock.ts';

/** A read that takes longer, from the pool's threads or in this one, says that those after it are better not waited for. */
const POOL_QUICK_MS = 10;
const QUICK_MS = 2;
/** So many quick ones before a slow one: it was held up by others, not by its disk. */
const RUN = 16;
/** Of reading, before others have their turn. */
const SLICE_MS = 4;
/** Read at once where they are not quick: the pool has four threads. */
const AT_ONCE = 4;
/** So many are left to the pool before it is seen again whether they are quick. */
const LEFT_TO_POOL = 64;
/** Files behind one that takes longer are not kept waiting for it. */
const PATIENCE_MS = 1_000;

interface Wanted {
  file: string;
  most: number;
  use: (content: Uint8Array | null) => void;
  fail: (error: unknown) => void;
}

export interface FileReadsDeps {
  clock: Pick<Clock, 'now' | 'sleep'>;
  read: (file: string) => Promise<Uint8Array | null>;
  /** Bytes that lie in `into` then. */
  readNow: (file: string, into: Uint8Array) => number | null;
}

export class FileReads {
  readonly #deps: FileReadsDeps;
  readonly #waiting: Wanted[] = [];
  #running = false;
  #memory = new Uint8Array(0);

  constructor(deps: FileReadsDeps = { clock: systemClock, read: readWhole, readNow: readAtOnce }) {
    this.#deps = deps;
  }

  /**
   * What `use` gives of the file, null: there is none. Its bytes are another file's afterwards; of one that is longer than
   * `most` at least one byte more may be all that comes.
   */
  read<T>(file: string, most: number, use: (content: Uint8Array | null) => T): Promise<T> {
    return new Promise((resolve, fail) => {
      this.#waiting.push({ file, most, use: (content) => resolve(use(content)), fail });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    // Whoever asks for many now would be taken for a slow disk.
    await setImmediate();
    while (this.#waiting.length > 0) {
      if ((await this.#readInPool(POOL_QUICK_MS)) && (await this.#readQuickly())) continue;
      let left = LEFT_TO_POOL;
      const readers = Array.from({ length: AT_ONCE }, async () => {
        while (this.#waiting.length > 0 && left-- > 0) if (!(await this.#readInPool(PATIENCE_MS))) break;
      });
      await Promise.all(readers);
    }
    this.#running = false;
  }

  /** One after the other, up to the first that is slow. False: that came soon, and the others are better left to the pool. */
  async #readQuickly(): Promise<boolean> {
    const { now } = this.#deps.clock;
    let sliceMs = now();
    for (let run = 0; this.#waiting.length > 0; run++) {
      const begunMs = now();
      this.#readNow(this.#waiting.shift()!);
      const endedMs = now();
      if (endedMs - begunMs > QUICK_MS) return run >= RUN;
      if (endedMs - sliceMs < SLICE_MS) continue;
      await setImmediate();
      sliceMs = now();
    }
    return true;
  }

  #readNow({ file, most, use, fail }: Wanted): void {
    // With a byte more, so that a longer one is seen to be longer.
    if (this.#memory.length <= most) this.#memory = new Uint8Array(most + 1);
    try {
      const bytes = this.#deps.readNow(file, this.#memory.subarray(0, most + 1));
      use(bytes === null ? null : this.#memory.subarray(0, bytes));
    } catch (error) {
      fail(error);
    }
  }

  /** False: it takes longer than that, and goes on beside what follows. */
  async #readInPool(patienceMs: number): Promise<boolean> {
    const { clock, read } = this.#deps;
    const { file, use, fail } = this.#waiting.shift()!;
    const begunMs = clock.now();
    const over = new AbortController();
    const content = read(file).then(use).catch(fail);
    const ended = await Promise.race([
      content.then(() => true),
      clock.sleep(patienceMs, over.signal).then(() => false),
    ]);
    over.abort();
    return ended && clock.now() - begunMs <= patienceMs;
  }
}

/** null: there is none. */
export const readWhole = (file: string): Promise<Uint8Array | null> => readFile(file).catch(nullIfAbsent);

function readAtOnce(file: string, into: Uint8Array): number | null {
  let opened: number;
  try {
    opened = openSync(file, 'r');
  } catch (error) {
    return nullIfAbsent(error);
  }
  try {
    let length = 0;
    for (;;) {
      const bytes = readSync(opened, into, length, into.length - length, null);
      length += bytes;
      // Of the wanted length, it would have shown a byte more if it had one.
      if (bytes === 0 || length >= into.length - 1) return length;
    }
  } finally {
    closeSync(opened);
  }
}

function nullIfAbsent(error: unknown): null {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return null;
  throw error;
}
