/**
 * Tokenises long texts in a separate thread, so that other requests do not wait for them. One text at a time, in order of
 * arrival. The thread is started for the first text, and again after it has ended. Texts are not split: where a text can be
 * split without changing its tokens depends on the tokenizer.
 */
import type { Worker } from 'node:worker_threads';
import { InternalError, messageOf } from '../../errors.ts';
import { comeBack } from '../http/http-error.ts';

/** Most texts that wait; further ones get 503. */
const MOST_WAITING = 32;

interface Job {
  text: string;
  done: (tokenIds: readonly number[]) => void;
  failed: (error: unknown) => void;
}

export class TextThread {
  readonly #start: () => Worker;
  #worker: Worker | null = null;
  /** The first job is the one in progress. */
  #jobs: Job[] = [];
  #closed = false;

  /** `start`: starts a thread that answers each text, in order, with its token ids as a Uint32Array. */
  constructor(start: () => Worker) {
    this.#start = start;
  }

  /**
   * Rejects with the signal's reason, with HttpError 503 if too many texts wait or the server is stopping, or with
   * InternalError if the thread ended or could not be started.
   */
  encode(text: string, signal: AbortSignal): Promise<readonly number[]> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(comeBack('the server is stopping'));
    if (this.#jobs.length > MOST_WAITING)
      return Promise.reject(
        comeBack(`${MOST_WAITING} long texts are already waiting to be tokenised: retry in a moment`),
      );
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
        // The job in progress cannot be stopped; its result is ignored.
        if (this.#jobs[0] !== job) this.#jobs = this.#jobs.filter((other) => other !== job);
        job.failed(signal.reason);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#jobs.push(job);
      if (this.#jobs.length === 1) this.#next();
    });
  }

  /** Ends the thread, which rejects all jobs. */
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
    // The open ports keep the process alive; this thread must not.
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
      failed(new InternalError(`the thread that tokenises long texts ${what}`));
  }
}
