/** What leaves a simulated engine: its requests' tokens, and its news of load and cache for whoever listens. */
import type { TokenIds } from '../config/token-ids.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import type { EngineCore } from '../engine/engine-core.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { RequestOutput } from '../engine/types.ts';
import { CacheReport } from '../host/cache-report.ts';
import { LoadReport } from '../host/load-report.ts';
import { OutputStream } from '../router/output-stream.ts';
import type { TransferResult } from '../transport/types.ts';
import type { VirtualClock } from './clock.ts';

/** Whom to tell; null costs nothing. */
export interface EngineNews {
  onLoad: ((load: EngineLoad) => void) | null;
  onCache: ((events: readonly CacheEvent[], atMs: number) => void) | null;
  /** A step gave some. */
  onOutputs: (() => void) | null;
}

export interface OutboxDeps extends EngineNews {
  clock: VirtualClock;
  /** From an engine's step to the router, milliseconds. */
  replyMs: number;
  /** What comes between a request's first token and its last goes out with the last. */
  onlyEnds: boolean;
}

/** A request that has not ended. */
interface Open {
  stream: OutputStream;
  /** All that it will generate. */
  answer: TokenIds;
  /** Tokens of it that went out, and those that are there beyond them. */
  told: number;
  kept: number;
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
    this.#caches.want(news.onCache !== null);
    this.#loads.want(news.onLoad !== null);
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
    this.#open.set(requestId, { stream, answer, told: 0, kept: 0 });
    return stream;
  }

  /** Nobody wants what is to come. */
  drop(requestId: string): void {
    this.#open.delete(requestId);
  }

  /** Its next output says so; `as`: from an engine, or from a store. */
  transferred(requestId: string, result: TransferResult, as: 'transfers' | 'loads'): void {
    this.#open.get(requestId)?.stream[as].push(result);
  }

  /** It has so many tokens more, which nobody waits for: they go out with its last. */
  keep(requestId: string, count: number): void {
    const open = this.#open.get(requestId);
    if (open) open.kept += count;
  }

  /** What a step that ends now gave. */
  deliver(outputs: readonly RequestOutput[]): void {
    const atMs = this.#clock.now();
    this.#loads.add(outputs, atMs);
    for (const output of outputs) {
      const open = this.#open.get(output.requestId);
      if (!open) continue;
      if (this.#onlyEnds && !output.finish && open.told > 0) open.kept += output.tokens.length;
      else this.#send(open, output, atMs);
    }
    if (outputs.length > 0) this.#news.onOutputs?.();
    this.tell(false);
  }

  /** Somebody wants to know of each step. */
  get listened(): boolean {
    return this.#news.onLoad !== null || this.#news.onCache !== null;
  }

  /** A step of those that are taken at once is over: every request has a token more. */
  tellDecoded(requests: number, atMs: number): void {
    this.#loads.tokens(requests, atMs);
    this.tell(false, atMs);
  }

  /** What a router is told after steps. */
  tell(idle: boolean, atMs: number = this.#clock.now()): void {
    const { onLoad, onCache } = this.#news;
    if (onCache) {
      const events = this.#caches.take();
      if (events.length > 0) onCache(events, atMs);
    }
    const load = onLoad && this.#loads.take(() => this.#core.inspect.load(), atMs, idle);
    if (load) onLoad?.(load);
  }

  /** The engine ends: what it generated was on its way, and whoever waits for more is told. */
  fail(error: Error): void {
    const nothing = { prompt: null, finish: null, times: { arrivalMs: 0, queuedMs: 0, scheduledMs: null } };
    for (const [requestId, { stream, answer, told, kept }] of this.#open) {
      const before = answer.slice(told, told + kept);
      if (kept > 0) stream.push({ requestId, tokens: [], before, ...nothing }, this.#clock.now());
      stream.fail(error);
    }
    this.#open.clear();
  }

  #send(open: Open, output: RequestOutput, atMs: number): void {
    const { stream, answer, told, kept } = open;
    if (output.finish) this.#open.delete(output.requestId);
    const whole = kept > 0 ? withBefore(output, answer.slice(told, told + kept)) : output;
    open.told += kept + output.tokens.length;
    open.kept = 0;
    if (this.#replyMs > 0) this.#clock.after(this.#replyMs, () => stream.push(whole, atMs));
    else stream.push(whole, atMs);
  }
}

const withBefore = (
  { requestId, tokens, prompt, times, finish }: RequestOutput,
  before: TokenIds,
): RequestOutput => ({ requestId, tokens, prompt, times, finish, before });
