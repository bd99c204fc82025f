/** One request's outputs, from the engine's events to whoever awaits them. */
import type { RequestOutput } from '../engine/types.ts';

export interface TimedOutput {
  output: RequestOutput;
  /** When the engine had it, on the shared clock. */
  atMs: number;
}

export class OutputStream implements AsyncIterable<TimedOutput> {
  readonly requestId: string;
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

  async *[Symbol.asyncIterator](): AsyncGenerator<TimedOutput> {
    for (;;) {
      const next = this.#ready.shift();
      if (next) yield next;
      else if (this.#failure) throw this.#failure;
      else if (this.#ended) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = null;
      }
    }
  }
}
