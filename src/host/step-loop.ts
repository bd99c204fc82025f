/** The loop of an engine's thread: steps while there is work, sends the results, and sleeps until something changes. */

import type { EngineCore } from '../engine/engine-core.ts';
import type { Clock } from '../engine/types.ts';
import type { CacheReport } from './cache-report.ts';
import type { EngineEvent } from './engine-report.ts';
import type { EngineSpans } from './engine-spans.ts';
import type { LoadReport } from './load-report.ts';

/** Milliseconds without a change after which waiting requests report why they wait. */
const STANDSTILL_MS = 500;
/** Milliseconds that a span waits for others at most; a message costs more than its contents. */
const SPAN_DELAY_MS = 50;

export interface StepLoopOptions {
  /** Called before each step, since the policy may be rebuilt between two; null: no step is allowed now. */
  core(): EngineCore | null;
  clock: Clock;
  /** Resolves after messages have been let in between two steps. */
  nextTask(): Promise<void>;
  spans: EngineSpans;
  cacheReport: CacheReport;
  loadReport: LoadReport;
  send(event: EngineEvent): void;
  /** Called when a step threw; the loop has ended. */
  onFailure(error: unknown): void;
  /** Ends the loop; call wake() after aborting it. */
  signal: AbortSignal;
}

export class StepLoop {
  /** Resolves when no more steps run. Never rejects. */
  readonly ended: Promise<void>;
  readonly #options: StepLoopOptions;
  /** Requests that have not ended, with the reason last reported for their waiting. */
  readonly #openRequests = new Map<string, string | null>();
  #wake: () => void = () => {};
  #spansDue = false;

  /** Starts at once. */
  constructor(options: StepLoopOptions) {
    this.#options = options;
    options.spans.onFirst = () => void this.#sendSpansSoon();
    this.ended = this.#run();
  }

  /** Call when something may have changed what a step would do. */
  wake(): void {
    this.#wake();
  }

  /** From now until it ends, the request's long waits are reported. */
  opened(requestId: string): void {
    this.#openRequests.set(requestId, null);
    this.#options.spans.opened(requestId);
  }

  sendCacheEvents(): void {
    const { cacheReport, clock, send } = this.#options;
    for (const batch of cacheReport.take()) send({ kind: 'cache', ...batch, atMs: clock.now() });
  }

  async #run(): Promise<void> {
    const { core, clock, nextTask, spans, loadReport, send, onFailure, signal } = this.#options;
    try {
      while (!signal.aborted) {
        const engine = core();
        if (engine?.poll()) {
          const outputs = await engine.step();
          for (const { finish, requestId } of outputs) if (finish) this.#closed(requestId);
          if (outputs.length > 0) {
            const atMs = clock.now();
            spans.outputsSent(atMs);
            loadReport.add(outputs, atMs);
            // Spans go before a turn's end, because its result is made from them.
            if (outputs.some(({ finish }) => finish)) this.#sendSpans();
            send({ kind: 'outputs', outputs, atMs });
          }
          this.sendCacheEvents();
          this.#sendStays(engine);
          this.#sendLoad(engine, false);
          await nextTask();
        } else {
          this.#sendSpans();
          this.sendCacheEvents();
          if (engine) this.#sendLoad(engine, true);
          await this.#idle();
        }
      }
    } catch (error) {
      onFailure(error);
    }
  }

  #closed(requestId: string): void {
    this.#openRequests.delete(requestId);
    this.#options.spans.closed(requestId);
  }

  #sendStays(engine: EngineCore): void {
    const stays = engine.takeStays();
    if (stays.length > 0) this.#options.send({ kind: 'stays', stays });
  }

  #sendLoad({ inspect }: EngineCore, idle: boolean): void {
    const { loadReport, clock, send } = this.#options;
    const load = loadReport.take(() => inspect.load(), clock.now(), idle);
    if (load) send({ kind: 'load', load });
  }

  #sendSpans(): void {
    const { spans, send } = this.#options;
    if (spans.count > 0) send({ kind: 'spans', spans: spans.take() });
  }

  async #sendSpansSoon(): Promise<void> {
    if (this.#spansDue) return;
    this.#spansDue = true;
    await this.#options.clock.sleep(SPAN_DELAY_MS, this.#options.signal);
    this.#spansDue = false;
    this.#sendSpans();
  }

  /**
   * Sleeps until a call, a transfer, a notification, a heartbeat or a deadline may have changed what a step would do.
   */
  async #idle(): Promise<void> {
    const { core, clock, signal } = this.#options;
    const stop = new AbortController();
    const called = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    if (signal.aborted) return;
    const changed = Promise.race([called, core()?.waitForChange(stop.signal) ?? called]);
    const moved = await Promise.race([changed.then(() => true), clock.sleep(STANDSTILL_MS, stop.signal)]);
    if (!moved) {
      this.#reportWaiting();
      await changed;
    }
    stop.abort();
  }

  #reportWaiting(): void {
    const { core, send } = this.#options;
    for (const [requestId, lastReason] of this.#openRequests) {
      const reason = core()?.inspect.waitingReason(requestId) ?? null;
      if (reason !== null && reason !== lastReason) send({ kind: 'waiting', requestId, reason });
      this.#openRequests.set(requestId, reason);
    }
  }
}
