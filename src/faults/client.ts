/**
 * An engine that hangs or is slow, as its router sees it: its calls and outputs are delayed, or withheld until
 * heal().
 */
import type { TokenIds } from '../config/token-ids.ts';
import type { Clock, EngineRequest } from '../engine/types.ts';
import type { EngineClient, RouterWork } from '../router/engine-client.ts';
import { OutputStream } from '../router/output-stream.ts';

/** Milliseconds by which a slow engine's calls and outputs are delayed. */
const SLOW_MS = 20;

export class FaultyClient implements EngineClient {
  readonly #engine: EngineClient;
  readonly #clock: Clock;
  #state: 'well' | 'slow' | { until: Promise<void>; resume: () => void } = 'well';

  readonly #fateOf: () => () => Promise<void>;
  /** Requests that the router has here. The engine may have ended one whose outputs are still withheld. */
  readonly #underWay = new Set<string>();

  /**
   * `fateOf`: called once per request; the returned function is awaited before the request is submitted and before
   * each output.
   */
  constructor(engine: EngineClient, clock: Clock, fateOf: () => () => Promise<void> = () => async () => {}) {
    this.#engine = engine;
    this.#clock = clock;
    this.#fateOf = fateOf;
  }

  get engineId() {
    return this.#engine.engineId;
  }
  get role() {
    return this.#engine.role;
  }
  get roleset(): string {
    return this.#engine.roleset ?? 'all';
  }
  get combined(): boolean {
    return this.#engine.combined ?? false;
  }
  get address() {
    return this.#engine.address;
  }
  get load() {
    return { inFlight: Math.max(this.#underWay.size, this.#engine.load.inFlight) };
  }
  get ended() {
    return this.#engine.ended;
  }

  slow(): void {
    if (this.#state === 'well') this.#state = 'slow';
  }

  hang(): void {
    if (typeof this.#state === 'object') return;
    let resume = () => {};
    const until = new Promise<void>((resolve) => {
      resume = resolve;
    });
    this.#state = { until, resume };
  }

  heal(): void {
    if (typeof this.#state === 'object') this.#state.resume();
    this.#state = 'well';
  }

  async submit(request: EngineRequest, work?: RouterWork): Promise<OutputStream> {
    const fate = this.#fateOf();
    this.#underWay.add(request.requestId);
    try {
      await this.#pause();
      await fate();
      const inner = await this.#engine.submit(request, work);
      const outer = new OutputStream(inner.requestId);
      void this.#relay(inner, outer, fate);
      return outer;
    } catch (error) {
      this.#underWay.delete(request.requestId);
      throw error;
    }
  }

  async stop(requestId: string): Promise<void> {
    await this.#pause();
    return this.#engine.stop(requestId);
  }

  async abort(requestId: string): Promise<void> {
    this.#underWay.delete(requestId);
    await this.#pause();
    return this.#engine.abort(requestId);
  }

  async release(requestIds: readonly string[]): Promise<void> {
    await this.#pause();
    return this.#engine.release(requestIds);
  }

  lookup(tokenIds: TokenIds, cacheSalt: string | null) {
    return this.#engine.lookup(tokenIds, cacheSalt);
  }

  forgetPrefix(tokenIds: TokenIds, cacheSalt: string | null, keep: number): Promise<void> {
    return this.#engine.forgetPrefix(tokenIds, cacheSalt, keep);
  }

  async #relay(inner: OutputStream, outer: OutputStream, fate: () => Promise<void>): Promise<void> {
    try {
      for await (const { output, atMs } of inner) {
        await this.#pause();
        await fate();
        outer.transfers.splice(0, outer.transfers.length, ...inner.transfers);
        outer.loads.splice(0, outer.loads.length, ...inner.loads);
        outer.push(output, atMs);
      }
    } catch (error) {
      outer.fail(error as Error);
    } finally {
      this.#underWay.delete(outer.requestId);
    }
  }

  async #pause(): Promise<void> {
    const state = this.#state;
    if (state === 'slow') await this.#clock.sleep(SLOW_MS);
    else if (state !== 'well') await state.until;
  }
}
