/** What leaves a simulated engine: its requests' tokens, and reports of its load and cache to listeners. */
import type { TokenIds } from '../../config/token-ids.ts';
import type { CacheEvent } from '../../engine/cache-event.ts';
import type { EngineCore } from '../../engine/engine-core.ts';
import type { EngineLoad } from '../../engine/inspect/engine-load.ts';
import type { RequestOutput } from '../../engine/types.ts';
import { CacheReport } from '../../host/cache-report.ts';
import { LoadReport } from '../../host/load-report.ts';
import { OutputStream } from '../../router/output-stream.ts';
import type { TransferResult } from '../../transport/types.ts';
import type { VirtualClock } from '../clock.ts';

/** Listeners; null: none, at no cost. */
export interface EngineNews {
  onLoad: ((load: EngineLoad) => void) | null;
  onCache: ((events: readonly CacheEvent[], atMs: number) => void) | null;
  /** Called when a step produced outputs. */
  onOutputs: (() => void) | null;
}

export interface OutboxDeps extends EngineNews {
  clock: VirtualClock;
  /** Delay from an engine's step to the router, milliseconds. */
  replyMs: number;
  /** Whether tokens between a request's first and last go out with the last. */
  onlyEnds: boolean;
}

/** A request that has not ended. */
interface Open {
  stream: OutputStream;
  /** All tokens that it will generate. */
  answer: TokenIds;
  /** Tokens of the answer that were sent, and tokens generated since then. */
  sent: number;
  unsent: number;
}

export class Outbox {
  readonly #clock: VirtualClock;
  readonly #core: EngineCore;
  readonly #news: EngineNews;
  readonly #replyMs: number;
  readonly #onlyEnds: boolean;
  readonly #open = new Map<string, Open>();
  readonly #loads = new LoadReport();
  readonly #caches = new CacheReport();

  constructor(core: EngineCore, { clock, replyMs, onlyEnds, ...news }: OutboxDeps) {
    this.#core = core;
    this.#clock = clock;
    this.#replyMs = replyMs;
    this.#onlyEnds = onlyEnds;
    this.#news = news;
    this.#caches.coreIs(core);
    if (news.onCache) this.#caches.begin(0);
    this.#loads.setEnabled(news.onLoad !== null);
  }

  /** Requests that have not ended. */
  get size(): number {
    return this.#open.size;
  }

  has(requestId: string): boolean {
    return this.#open.has(requestId);
  }

  open(requestId: string, answer: TokenIds): OutputStream {
    const stream = new OutputStream(requestId);
    this.#open.set(requestId, { stream, answer, sent: 0, unsent: 0 });
    return stream;
  }

  /** Discards all further output of the request. */
  drop(requestId: string): void {
    this.#open.delete(requestId);
  }

  /** Reports the transfer with the request's next output. `as`: from an engine, or from a store. */
  transferred(requestId: string, result: TransferResult, as: 'transfers' | 'loads'): void {
    this.#open.get(requestId)?.stream[as].push(result);
  }

  /** The request generated `count` more tokens, which go out with its last output. */
  defer(requestId: string, count: number): void {
    const open = this.#open.get(requestId);
    if (open) open.unsent += count;
  }

  /** Delivers the outputs of a step that ends now. */
  deliver(outputs: readonly RequestOutput[]): void {
    const atMs = this.#clock.now();
    this.#loads.add(outputs, atMs);
    for (const output of outputs) {
      const open = this.#open.get(output.requestId);
      if (!open) continue;
      if (this.#onlyEnds && !output.finish && open.sent > 0) open.unsent += output.tokens.length;
      else this.#send(open, output, atMs);
    }
    if (outputs.length > 0) this.#news.onOutputs?.();
    this.report(false);
  }

  /** Whether anything listens to load or cache reports. */
  get listened(): boolean {
    return this.#news.onLoad !== null || this.#news.onCache !== null;
  }

  /** One of several decode steps that are computed together has ended: each request has one more token. */
  reportDecoded(requests: number, atMs: number): void {
    this.#loads.tokens(requests, atMs);
    this.report(false, atMs);
  }

  /** Sends cache events and load to the listeners. `idle`: no step follows. */
  report(idle: boolean, atMs: number = this.#clock.now()): void {
    const { onLoad, onCache } = this.#news;
    if (onCache) for (const { events } of this.#caches.take()) if (events.length > 0) onCache(events, atMs);
    const load = onLoad && this.#loads.take(() => this.#core.inspect.load(), atMs, idle);
    if (load) onLoad?.(load);
  }

  /** The engine has ended: delivers the tokens that were kept, then fails every open stream with `error`. */
  fail(error: Error): void {
    const nothing = { prompt: null, finish: null, times: { arrivalMs: 0, queuedMs: 0, scheduledMs: null } };
    for (const [requestId, { stream, answer, sent, unsent }] of this.#open) {
      const before = answer.slice(sent, sent + unsent);
      if (unsent > 0) stream.push({ requestId, tokens: [], before, ...nothing }, this.#clock.now());
      stream.fail(error);
    }
    this.#open.clear();
  }

  #send(open: Open, output: RequestOutput, atMs: number): void {
    const { stream, answer, sent, unsent } = open;
    if (output.finish) this.#open.delete(output.requestId);
    const complete = unsent > 0 ? withBefore(output, answer.slice(sent, sent + unsent)) : output;
    open.sent += unsent + output.tokens.length;
    open.unsent = 0;
    if (this.#replyMs > 0) this.#clock.after(this.#replyMs, () => stream.push(complete, atMs));
    else stream.push(complete, atMs);
  }
}

const withBefore = (
  { requestId, tokens, prompt, times, finish }: RequestOutput,
  before: TokenIds,
): RequestOutput => ({ requestId, tokens, prompt, times, finish, before });
