/**
 * Faults that are switched on and off while engines serve, each for one engine, at a rate. Draws for every request and
 * message that a fault could meet, from one seed; puts them in at the seams of a cluster, and keeps account of what met
 * whom. Knows no engine but as its router sees it: whoever starts them says how one is killed.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { Clock } from '../engine/types.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { seededGenerator } from '../seeded.ts';
import { FaultyClient } from './client.ts';
import { type MessageFault, suits } from './messages.ts';
import { FaultyWires } from './wire.ts';

/** To the engine itself. */
export const ENGINE_FAULTS = ['kill', 'hang', 'slow'] as const;
/** To what an engine sends to others. */
export const SENT_FAULTS = [
  'lose',
  'delay',
  'repeat',
  'reorder',
  'lose-notice',
  'flip',
] as const satisfies MessageFault[];
/** To requests at a port, before any engine hears of them. Names: llm-d-inference-sim's failure types. */
export const PORT_FAULTS = [
  'rate_limit',
  'invalid_api_key',
  'context_length',
  'server_error',
  'invalid_request',
  'model_not_found',
] as const;

export type PortFault = (typeof PORT_FAULTS)[number];
export type BoardFault = (typeof ENGINE_FAULTS)[number] | (typeof SENT_FAULTS)[number] | PortFault;

export interface Injected {
  /** By its place, whatever life the engine there is in; or the router's port. */
  engine: string;
  fault: BoardFault;
  /** Percent of what it could meet; null: it happened once, when it was asked for. */
  rate: number | null;
  /** Milliseconds, of slow outputs and late messages. */
  delayMs: number;
  /** How often it happened. */
  times: number;
}

/** An engine's name in its place, without the number of its life. */
const placeOf = (engineId: string): string => engineId.replace(/\.\d+$/, '');

/** Percent: what is rarer would never be drawn. */
export const FINEST_RATE = 0.01;

export class FaultBoard {
  readonly #clock: Clock;
  readonly #wires: FaultyWires;
  readonly #clients = new WeakMap<EngineClient, FaultyClient>();
  #injected: Injected[] = [];
  #seed = 0;
  #random = seededGenerator(0);
  /** Aborts when all of it ends. */
  #over = new AbortController();
  /** By place: aborts when the engine that is there now is killed. */
  readonly #lives = new Map<string, AbortController>();
  /** Ends the engine in this place. */
  kill: (engine: string) => Promise<void> = async () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#wires = new FaultyWires((engineId, message) => {
      const kinds = SENT_FAULTS.filter((fault) => suits(fault, message));
      const met = this.#draw(placeOf(engineId), kinds);
      const late = () => clock.sleep(met!.delayMs, this.#over.signal);
      return met && { fault: met.fault, late, met: () => met.times++ };
    });
  }

  get seed(): number {
    return this.#seed;
  }

  get injected(): readonly Readonly<Injected>[] {
    return this.#injected;
  }

  /** For a cluster's seams. */
  readonly wire: FaultyWires['wire'] = (a, b) => this.#wires.wire(a, b);

  /** The same for the same engine. */
  readonly client = (engine: EngineClient): EngineClient => {
    const known = this.#clients.get(engine);
    if (known) return known;
    const client = new FaultyClient(engine, this.#clock, () => this.#fateAt(placeOf(engine.engineId)));
    this.#clients.set(engine, client);
    return client;
  };

  /** In force from now on, in place of the same fault of the same engine. `seed`: draws begin anew. */
  async add(faults: readonly Omit<Injected, 'times'>[], seed: number | null): Promise<void> {
    if (seed !== null) {
      this.#seed = seed;
      this.#random = seededGenerator(seed);
    }
    for (const added of faults) {
      const same = ({ engine, fault }: Injected) => engine === added.engine && fault === added.fault;
      const once = added.rate === null;
      this.#injected = [...this.#injected.filter((old) => !same(old)), { ...added, times: once ? 1 : 0 }];
      if (once) await this.#endLife(added.engine);
    }
  }

  /** Nothing more happens: what hung goes on, what is late arrives. */
  clear(): void {
    this.#injected = [];
    this.#over.abort();
    this.#over = new AbortController();
    this.#wires.heal();
  }

  /** What a request that came to this port ends with; null: nothing. */
  atPort(engine: string): PortFault | null {
    return this.#met(engine, PORT_FAULTS)?.fault ?? null;
  }

  /** What holds back each output of a request that reaches the engine now. */
  #fateAt(engine: string): () => Promise<void> {
    if (this.#met(engine, ['kill'])) void this.#endLife(engine).catch(() => {});
    const { signal } = this.#over;
    if (this.#met(engine, ['hang'])) {
      const life = this.#lives.get(engine) ?? new AbortController();
      this.#lives.set(engine, life);
      return () => Promise.race([ended(signal), ended(life.signal)]);
    }
    const slow = this.#met(engine, ['slow']);
    return async () => {
      if (slow) await this.#clock.sleep(slow.delayMs, signal);
    };
  }

  /** Who waits for an engine that hangs hears of its end, as of any other's. */
  async #endLife(engine: string): Promise<void> {
    try {
      await this.kill(engine);
    } finally {
      this.#lives.get(engine)?.abort();
      this.#lives.delete(engine);
    }
  }

  #met<K extends BoardFault>(engine: string, kinds: readonly K[]): (Injected & { fault: K }) | null {
    const met = this.#draw(engine, kinds);
    if (met) met.times++;
    return met;
  }

  #draw<K extends BoardFault>(engine: string, kinds: readonly K[]): (Injected & { fault: K }) | null {
    for (const injected of this.#injected) {
      const { rate, fault } = injected;
      if (injected.engine !== engine || rate === null || !(kinds as readonly BoardFault[]).includes(fault))
        continue;
      if (uniformInt(this.#random, 1, 100 / FINEST_RATE) > Math.round(rate / FINEST_RATE)) continue;
      return injected as Injected & { fault: K };
    }
    return null;
  }
}

const ended = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
