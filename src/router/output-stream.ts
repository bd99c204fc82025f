/** One request's outputs, from an engine to their reader, and the transfers that the request caused. */
import type { RequestOutput } from '../engine/types.ts';
import type { TransferResult } from '../transport/types.ts';

export interface TimedOutput {
  output: RequestOutput;
  /** When the engine had it, in milliseconds on the shared clock. */
  atMs: number;
}

export class OutputStream implements AsyncIterable<TimedOutput> {
  readonly requestId: string;
  /** The request's own READs in the order in which they ended. Complete when the first token is out. */
  readonly transfers: TransferResult[] = [];
  /** READs from a store are listed here instead. */
  readonly loads: TransferResult[] = [];
  #ready: TimedOutput[] = [];
  #failure: Error | null = null;
  #ended = false;
  #wake: (() => void) | null = null;

  constructor(requestId: string) {
    this.requestId = requestId;
  }

  push(output: RequestOutput, atMs: number): void {
    this.#ready.push({ output, atMs });
    if (output.finish) this.#ended = true;
    this.#wake?.();
  }

  /** Outputs pushed before are still delivered; then the reader gets the error. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#failure = error;
    this.#ended = true;
    this.#wake?.();
  }

  /** The reader gets the error at once; outputs not yet read are dropped. */
  interrupt(error: Error): void {
    this.#ready = [];
    this.#failure = error;
    this.#ended = true;
    this.#wake?.();
  }

  /** Not a generator, for speed: every served token passes through here. */
  [Symbol.asyncIterator](): AsyncIterator<TimedOutput, undefined> {
    return { next: () => this.#next() };
  }

  async #next(): Promise<IteratorResult<TimedOutput, undefined>> {
    for (;;) {
      const value = this.#ready.shift();
      if (value) return { done: false, value };
      if (this.#failure) throw this.#failure;
      if (this.#ended) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
  }
}
