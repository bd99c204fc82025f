/**
 * Reads many small files. While reads are fast they are synchronous, in this thread, which avoids the thread pool and
 * an allocation per file. A slow disk must not block a thread that serves others, so:
 * - every run of synchronous reads starts with one through the pool;
 * - the first slow synchronous read ends the run;
 * - every few milliseconds the event loop gets a turn.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../engine/types.ts';

/** A read that takes longer, through the pool or in this thread, counts as slow. */
const POOL_QUICK_MS = 10;
const QUICK_MS = 2;
/** After this many fast reads, one slow read is taken for a busy processor and not for a slow disk. */
const RUN = 16;
/** Synchronous reading between turns of the event loop. */
const SLICE_MS = 4;
/** Concurrent reads through the pool. */
const AT_ONCE = 3;
/** Reads through the pool before the next attempt at synchronous reads. */
const LEFT_TO_POOL = 64;
/** Other files do not wait longer than this for a slow read. */
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
  /** Reads into `into` and returns the number of bytes; null if the file does not exist. */
  readNow: (file: string, into: Uint8Array) => number | null;
}

export class FileReads {
  readonly #deps: FileReadsDeps;
  readonly #waiting: Wanted[] = [];
  #running = false;
  #memory = new Uint8Array(0);

  constructor(deps: FileReadsDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves to the result of `use`, called with the file's content, or null if it does not exist. The content is valid
   * only during `use`: the memory is then reused. For a file longer than `most` bytes it may be truncated, to no less
   * than `most + 1`.
   */
  read<T>(file: string, most: number, use: (content: Uint8Array | null) => T): Promise<T> {
    return new Promise((resolve, fail) => {
      this.#waiting.push({ file, most, use: (content) => resolve(use(content)), fail });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    // Let the caller queue all its reads first: the time it takes would look like a slow disk.
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

  /**
   * Reads synchronously until a read is slow. Returns false if that came within the first RUN reads: the rest are left
   * to the pool.
   */
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
    // One byte more, to detect a file longer than `most`.
    if (this.#memory.length <= most) this.#memory = new Uint8Array(most + 1);
    try {
      const bytes = this.#deps.readNow(file, this.#memory.subarray(0, most + 1));
      use(bytes === null ? null : this.#memory.subarray(0, bytes));
    } catch (error) {
      fail(error);
    }
  }

  /**
   * Returns false if the read fails, since a disk that does not answer must not be read in this thread, or if it takes
   * longer than patienceMs. It then continues in the background.
   */
  async #readInPool(patienceMs: number): Promise<boolean> {
    const { clock, read } = this.#deps;
    const { file, use, fail } = this.#waiting.shift()!;
    const begunMs = clock.now();
    const over = new AbortController();
    const content = read(file).then(use);
    content.catch(fail);
    const ended = await Promise.race([
      content.then(
        () => true,
        () => false,
      ),
      clock.sleep(patienceMs, over.signal).then(() => false),
    ]);
    over.abort();
    return ended && clock.now() - begunMs <= patienceMs;
  }
}

/** null if the file does not exist. */
export const readWhole = (file: string): Promise<Uint8Array | null> => readFile(file).catch(nullIfAbsent);

/** As FileReadsDeps says of readNow. */
export function readAtOnce(file: string, into: Uint8Array): number | null {
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
      // `most` bytes are the whole file: a longer one would have filled the extra byte.
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
