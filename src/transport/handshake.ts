/**
 * The reader's side of the handshake: one hello, one welcome, then a connection that lasts until the holder ends or reports
 * that it no longer knows it. Concurrent callers share one handshake.
 */
import type { Clock } from '../engine/types.ts';
import { type HandshakeSide, incompatibility } from './compatibility.ts';
import { ATTEMPTS, silence } from './deadlines.ts';
import type { ToHolder, WelcomeMessage } from './messages.ts';
import type { EngineIdentity } from './types.ts';
import { welcomeProblem } from './welcome-check.ts';

export interface Connected {
  epoch: number;
  identity: EngineIdentity;
  slab: SharedArrayBuffer;
  slots: number;
  slotBytes: number;
  /** Holder's clock minus own clock, ms. */
  clockOffsetMs: number;
}

export type ConnectResult =
  | { ok: true; connected: Connected }
  | { ok: false; outcome: 'failed' | 'dead'; message: string };

export interface HandshakeDeps {
  own: HandshakeSide;
  enforceHandshakeCompat: boolean;
  maxChunkBytes: number;
  clock: Clock;
  /** Time after which a silent peer is asked again, ms. */
  silenceMs: number;
  nextEpoch: () => number;
  post: (message: ToHolder) => void;
}

type State =
  | { kind: 'idle' }
  | {
      kind: 'shaking';
      epoch: number;
      sentAt: number;
      promise: Promise<ConnectResult>;
      resolve: (result: ConnectResult) => void;
    }
  | { kind: 'connected'; connected: Connected }
  | { kind: 'dead'; message: string };

export class Handshake {
  readonly #deps: HandshakeDeps;
  #state: State = { kind: 'idle' };

  constructor(deps: HandshakeDeps) {
    this.#deps = deps;
  }

  get connected(): Connected | null {
    return this.#state.kind === 'connected' ? this.#state.connected : null;
  }

  /** Connects if necessary. Never rejects. After a failure, the next call tries again. */
  connect(): Promise<ConnectResult> {
    const state = this.#state;
    if (state.kind === 'connected') return Promise.resolve({ ok: true, connected: state.connected });
    if (state.kind === 'dead') return Promise.resolve({ ok: false, outcome: 'dead', message: state.message });
    if (state.kind === 'shaking') return state.promise;
    const { promise, resolve } = withResolvers<ConnectResult>();
    const answered = new AbortController();
    void promise.then(() => answered.abort());
    void this.#shake(promise, resolve, answered.signal);
    return promise;
  }

  /** Uses a new epoch for each attempt, so that a late answer to an earlier one is ignored. */
  async #shake(
    promise: Promise<ConnectResult>,
    resolve: (result: ConnectResult) => void,
    answered: AbortSignal,
  ): Promise<void> {
    const { clock, silenceMs, own, maxChunkBytes, nextEpoch, post } = this.#deps;
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const epoch = nextEpoch();
      this.#state = { kind: 'shaking', epoch, sentAt: clock.now(), promise, resolve };
      post({ kind: 'hello', epoch, ...own, maxChunkBytes });
      const silent = await silence(clock, silenceMs, () => 0, answered);
      if (!silent || answered.aborted) return;
    }
    this.#state = { kind: 'idle' };
    const message = `no answer to ${ATTEMPTS} handshakes, each within ${silenceMs / 1000} s.`;
    resolve({ ok: false, outcome: 'failed', message });
  }

  onWelcome(message: WelcomeMessage): void {
    const state = this.#state;
    if (state.kind !== 'shaking' || state.epoch !== message.epoch) return;
    const result = this.#judge(message, state.sentAt);
    this.#state = result.ok ? { kind: 'connected', connected: result.connected } : { kind: 'idle' };
    state.resolve(result);
  }

  /** The holder no longer knows the connection: the next connect() repeats the handshake. */
  forget(): void {
    if (this.#state.kind === 'connected') this.#state = { kind: 'idle' };
  }

  /** The holder ended: the current and all later connect() calls result in 'dead'. */
  end(message: string): void {
    const state = this.#state;
    this.#state = { kind: 'dead', message };
    if (state.kind === 'shaking') state.resolve({ ok: false, outcome: 'dead', message });
  }

  #judge(message: WelcomeMessage, sentAt: number): ConnectResult {
    const failed = (why: string): ConnectResult => ({ ok: false, outcome: 'failed', message: why });
    const wrong = welcomeProblem(message);
    if (wrong !== null) return failed(`the reply to the handshake is invalid: ${wrong}.`);
    const { identity, slab, slots, slotBytes, now } = message;
    const theirs = { identity, factors: message.factors };
    const why = incompatibility(this.#deps.own, theirs, this.#deps.enforceHandshakeCompat);
    if (why) return failed(why);
    const clockOffsetMs = now - (sentAt + this.#deps.clock.now()) / 2;
    const { epoch } = message;
    return { ok: true, connected: { epoch, identity, slab, slots, slotBytes, clockOffsetMs } };
  }
}

export function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((r) => {
    resolve = r;
  });
  return { promise, resolve };
}
