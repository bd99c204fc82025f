/** What leaves a simulated engine: its requests' tokens, and its news of load and cache for whoever listens. */
import type { CacheEvent } from '../engine/cache-event.ts';
import type { EngineCore } from '../engine/engine-core.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { RequestOutput, SampledToken } from '../engine/types.ts';
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

export class Outbox {
  readonly #clock: VirtualClock;
  readonly #core: EngineCore;
  readonly #news: EngineNews;
  readonly #replyMs: number;
  readonly #onlyEnds: boolean;
  readonly #streams = new Map<string, OutputStream>();
  /** Whose first token went out. */
  readonly #begun = new Set<string>();
  /** Tokens that nobody waits for: they go out with their request's last. */
  readonly #kept = new Map<string, SampledToken[]>();
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
    return this.#streams.size;
  }

  has(requestId: string): boolean {
    return this.#streams.has(requestId);
  }

  open(requestId: string): OutputStream {
    const stream = new OutputStream(requestId);
    this.#streams.set(requestId, stream);
    return stream;
  }

  /** Nobody wants what is to come. */
  drop(requestId: string): void {
    this.#streams.delete(requestId);
    this.#kept.delete(requestId);
    this.#begun.delete(requestId);
  }

  /** Its next output says so. */
  transferred(requestId: string, result: TransferResult): void {
    this.#streams.get(requestId)?.transfers.push(result);
  }

  keep(requestId: string, token: SampledToken): void {
    const kept = this.#kept.get(requestId);
    if (kept) kept.push(token);
    else this.#kept.set(requestId, [token]);
  }

  /** What a step that ends now gave. */
  deliver(outputs: readonly RequestOutput[]): void {
    const atMs = this.#clock.now();
    this.#loads.add(outputs, atMs);
    for (const output of outputs) {
      const { requestId, tokens, finish } = output;
      if (this.#onlyEnds && !finish && this.#begun.has(requestId))
        for (const token of tokens) this.keep(requestId, token);
      else this.#send(output, atMs);
    }
    if (outputs.length > 0) this.#news.onOutputs?.();
    this.tell(false);
  }

  /** A step of those that are taken at once is over: every request has a token more. */
  tellDecoded(requests: number, atMs: number): void {
    if (!this.#news.onLoad && !this.#news.onCache) return;
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
    for (const [requestId, tokens] of this.#kept)
      this.#streams.get(requestId)?.push({ requestId, tokens, ...nothing }, this.#clock.now());
    this.#kept.clear();
    for (const stream of this.#streams.values()) stream.fail(error);
    this.#streams.clear();
    this.#begun.clear();
  }

  #send(output: RequestOutput, atMs: number): void {
    const { requestId, finish } = output;
    const stream = this.#streams.get(requestId);
    if (finish) {
      this.#streams.delete(requestId);
      this.#begun.delete(requestId);
    } else if (stream) this.#begun.add(requestId);
    const kept = this.#kept.get(requestId);
    if (kept) this.#kept.delete(requestId);
    const whole = kept ? { ...output, tokens: [...kept, ...output.tokens] } : output;
    if (!stream) return;
    const push = (): void => {
      stream.push(whole, atMs);
    };
    if (this.#replyMs > 0) this.#clock.after(this.#replyMs, push);
    else push();
  }
}
