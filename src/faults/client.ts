/** An engine that hangs or is slow, as its router sees it: what it does and answers comes late, or not before it is told to go on. */
import type { Clock, EngineRequest } from '../engine/types.ts';
import type { EngineClient, RouterWork } from '../router/engine-client.ts';
import { OutputStream } from '../router/output-stream.ts';

/** Milliseconds between what a slow engine has and what its router gets. */
const SLOW_MS = 20;

export class FaultyClient implements EngineClient {
  readonly #engine: EngineClient;
  readonly #clock: Clock;
  #state: 'well' | 'slow' | { until: Promise<void>; goOn: () => void } = 'well';

  constructor(engine: EngineClient, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  get engineId() {
    return this.#engine.engineId;
  }
  get role() {
    return this.#engine.role;
  }
  get address() {
    return this.#engine.address;
  }
  get load() {
    return this.#engine.load;
  }
  get ended() {
    return this.#engine.ended;
  }

  slow(): void {
    if (this.#state === 'well') this.#state = 'slow';
  }

  hang(): void {
    if (typeof this.#state === 'object') return;
    let goOn = () => {};
    const until = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    this.#state = { until, goOn };
  }

  heal(): void {
    if (typeof this.#state === 'object') this.#state.goOn();
    this.#state = 'well';
  }

  async submit(request: EngineRequest, work?: RouterWork): Promise<OutputStream> {
    await this.#pause();
    const inner = await this.#engine.submit(request, work);
    const outer = new OutputStream(inner.requestId);
    void this.#relay(inner, outer);
    return outer;
  }

  async stop(requestId: string): Promise<void> {
    await this.#pause();
    return this.#engine.stop(requestId);
  }

  async abort(requestId: string): Promise<void> {
    await this.#pause();
    return this.#engine.abort(requestId);
  }

  async release(requestIds: readonly string[]): Promise<void> {
    await this.#pause();
    return this.#engine.release(requestIds);
  }

  lookup(tokenIds: readonly number[], cacheSalt: string | null) {
    return this.#engine.lookup(tokenIds, cacheSalt);
  }

  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keep: number): Promise<void> {
    return this.#engine.forgetPrefix(tokenIds, cacheSalt, keep);
  }

  async #relay(inner: OutputStream, outer: OutputStream): Promise<void> {
    try {
      for await (const { output, atMs } of inner) {
        await this.#pause();
        outer.transfers.splice(0, outer.transfers.length, ...inner.transfers);
        outer.push(output, atMs);
      }
    } catch (error) {
      outer.fail(error as Error);
    }
  }

  async #pause(): Promise<void> {
    const state = this.#state;
    if (state === 'slow') await this.#clock.sleep(SLOW_MS);
    else if (state !== 'well') await state.until;
  }
}
