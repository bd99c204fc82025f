/**
 * Long texts to token ids, in a thread of their own: no other request waits for them. One text at a time, in the order
 * in which they came; the thread is started for the first, and again after it ended. Cutting a text into pieces would
 * not do: where a tokenizer may be cut without another answer is its own affair.
 */
import type { Worker } from 'node:worker_threads';
import { InternalError, messageOf } from '../errors.ts';
import { comeBack } from './http-error.ts';

/** Texts that wait for their turn: the next is told to come back. */
const MOST_WAITING = 32;

interface Job {
  text: string;
  done: (tokenIds: readonly number[]) => void;
  failed: (error: unknown) => void;
}

export class TextThread {
  readonly #start: () => Worker;
  #worker: Worker | null = null;
  /** The first one is at work, where there is a thread. */
  #jobs: Job[] = [];
  #closed = false;

  /** `start`: a thread that answers each text with its ids as a Uint32Array, in order. */
  constructor(start: () => Worker) {
    this.#start = start;
  }

  /** Rejects with the signal's reason, HttpError 503 when too many wait, or InternalError when the thread ended or could not be started. */
  encode(text: string, signal: AbortSignal): Promise<readonly number[]> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(comeBack('the server is stopping'));
    if (this.#jobs.length > MOST_WAITING)
      return Promise.reject(comeBack(`${MOST_WAITING} long texts wait for their tokens already`));
    return new Promise((resolve, reject) => {
      const settled = () => signal.removeEventListener('abort', giveUp);
      const job: Job = {
        text,
        done: (tokenIds) => {
          settled();
          resolve(tokenIds);
        },
        failed: (error) => {
          settled();
          reject(error);
        },
      };
      const giveUp = () => {
        // The one at work goes on, since nothing can stop it, for nobody.
        if (this.#jobs[0] !== job) this.#jobs = this.#jobs.filter((other) => other !== job);
        job.failed(signal.reason);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#jobs.push(job);
      if (this.#jobs.length === 1) this.#next();
    });
  }

  /** Rejects what waits, and ends the thread. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#worker?.terminate();
  }

  #next(): void {
    const job = this.#jobs[0];
    if (!job) return;
    try {
      this.#worker ??= this.#listen(this.#start());
    } catch (error) {
      this.#failAll(`could not be started: ${messageOf(error)}`);
      return;
    }
    this.#worker.postMessage(job.text);
  }

  #listen(worker: Worker): Worker {
    // The server lives by its ports.
    worker.unref();
    let reason = 'it was closed';
    worker.on('message', (ids: Uint32Array) => {
      this.#jobs.shift()!.done(Array.from(ids));
      this.#next();
    });
    worker.on('error', (error) => {
      reason = error.message;
    });
    worker.once('exit', () => {
      this.#worker = null;
      this.#failAll(`ended: ${reason}`);
    });
    return worker;
  }

  #failAll(what: string): void {
    for (const { failed } of this.#jobs.splice(0))
      failed(new InternalError(`the thread that makes tokens of long texts ${what}`));
  }
}
