/** One request's outputs, from an engine to whoever awaits them, and the transfers that it caused. */
import type { RequestOutput } from '../engine/types.ts';
import type { TransferResult } from '../transport/types.ts';

export interface TimedOutput {
  output: RequestOutput;
  /** When the engine had it, on the shared clock, milliseconds. */
  atMs: number;
}

export class OutputStream implements AsyncIterable<TimedOutput> {
  readonly requestId: string;
  /** READs of the request's own, as they ended: complete when its first token is out. */
  readonly transfers: TransferResult[] = [];
  /** Of these, those from a store are here instead. */
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

  /** What came before is still delivered; then the reader gets the error. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#failure = error;
    this.#ended = true;
    this.#wake?.();
  }

  /** The reader gets the error at once, and nothing more. */
  interrupt(error: Error): void {
    this.#ready = [];
    this.#failure = error;
    this.#ended = true;
    this.#wake?.();
  }

  /** No generator: every token that is served goes through here. */
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
