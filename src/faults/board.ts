/**
 * Faults that are switched on and off while engines serve. Each applies to one engine, at a given rate. The board
 * decides by random draws, from one seed, for every request and message that a fault could affect, injects the fault
 * at the interfaces of a cluster (src/fleet/hooks.ts), and counts what it affected. It sees engines only as their
 * router does; the caller supplies how one is killed.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { Clock } from '../engine/types.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { seededGenerator } from '../seeded.ts';
import { FaultyClient } from './client.ts';
import { type MessageFault, suits } from './messages.ts';
import { FaultyWires } from './wire.ts';

/** Faults of the engine itself. */
export const ENGINE_FAULTS = ['kill', 'hang', 'slow'] as const;
/** Faults of the messages that an engine sends to others. */
export const SENT_FAULTS = [
  'lose',
  'delay',
  'repeat',
  'reorder',
  'lose-notice',
  'flip',
] as const satisfies MessageFault[];
/** Faults of requests at a port, before any engine sees them. The names are llm-d-inference-sim's failure types. */
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
  /** The seat's name, for every engine that takes the seat; or the router's port. */
  engine: string;
  fault: BoardFault;
  /** Percentage of what it could affect; null: it happens once, when it is added. */
  rate: number | null;
  /** Milliseconds, for slow outputs and late messages. */
  delayMs: number;
  /** How often it has happened. */
  times: number;
}

/** The name of an engine's seat: its id without the number of its life. */
const placeOf = (engineId: string): string => engineId.replace(/\.\d+$/, '');

/** Smallest rate, in percent; smaller ones would never be drawn. */
export const FINEST_RATE = 0.01;

export class FaultBoard {
  readonly #clock: Clock;
  readonly #wires: FaultyWires;
  readonly #clients = new WeakMap<EngineClient, FaultyClient>();
  #injected: Injected[] = [];
  #seed = 0;
  #random = seededGenerator(0);
  /** End when all faults are cleared. */
  #waits = new Waits();
  /** By seat: end when the engine that is there now is killed. */
  readonly #lives = new Map<string, Waits>();
  /** Ends the engine in this seat. Set by the caller. */
  kill: (engine: string) => Promise<void> = async () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#wires = new FaultyWires((engineId, message) => {
      const kinds = SENT_FAULTS.filter((fault) => suits(fault, message));
      const met = this.#draw(placeOf(engineId), kinds);
      const late = () => waitUntil((over) => clock.sleep(met!.delayMs, over), [this.#waits]);
      return met && { fault: met.fault, late, met: () => met.times++ };
    });
  }

  get seed(): number {
    return this.#seed;
  }

  get injected(): readonly Readonly<Injected>[] {
    return this.#injected;
  }

  /** For ClusterHooks.wire. */
  readonly wire: FaultyWires['wire'] = (a, b) => this.#wires.wire(a, b);

  /** For ClusterHooks.client. Returns the same client for the same engine. */
  readonly client = (engine: EngineClient): EngineClient => {
    const known = this.#clients.get(engine);
    if (known) return known;
    const client = new FaultyClient(engine, this.#clock, () => this.#fateAt(placeOf(engine.engineId)));
    this.#clients.set(engine, client);
    return client;
  };

  /**
   * Activates the faults from now on, replacing the same fault of the same engine. `seed`: restarts the draws; null:
   * continues them.
   */
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

  /** Ends all faults: engines that hung continue, and late messages arrive. */
  clear(): void {
    this.#injected = [];
    this.#waits.end();
    this.#waits = new Waits();
    this.#wires.heal();
  }

  /** The fault with which a request at this port ends; null: none. */
  atPort(engine: string): PortFault | null {
    return this.#met(engine, PORT_FAULTS)?.fault ?? null;
  }

  /** What delays each output of a request that reaches the engine now. */
  #fateAt(engine: string): () => Promise<void> {
    if (this.#met(engine, ['kill'])) void this.#endLife(engine).catch(() => {});
    const waits = this.#waits;
    if (this.#met(engine, ['hang'])) {
      const life = this.#lives.get(engine) ?? new Waits();
      this.#lives.set(engine, life);
      return () => waitUntil(aborted, [waits, life]);
    }
    const slow = this.#met(engine, ['slow']);
    return async () => {
      if (slow) await waitUntil((over) => this.#clock.sleep(slow.delayMs, over), [waits]);
    };
  }

  /** Callers that wait for a hanging engine are told of its end, as with any other engine. */
  async #endLife(engine: string): Promise<void> {
    try {
      await this.kill(engine);
    } finally {
      this.#lives.get(engine)?.end();
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

/** Waits that end together. Each has its own signal: Node reports a leak if one signal has more than ten listeners. */
class Waits {
  readonly #waiting = new Set<AbortController>();
  #ended = false;

  add(wait: AbortController): void {
    if (this.#ended) wait.abort();
    else this.#waiting.add(wait);
  }

  delete(wait: AbortController): void {
    this.#waiting.delete(wait);
  }

  end(): void {
    this.#ended = true;
    for (const wait of this.#waiting) wait.abort();
  }
}

/** Runs `wait` with a signal that aborts when one of `ends` ends; not at all if one has ended. */
async function waitUntil(wait: (over: AbortSignal) => Promise<void>, ends: readonly Waits[]): Promise<void> {
  const own = new AbortController();
  for (const end of ends) end.add(own);
  if (!own.signal.aborted) await wait(own.signal);
  for (const end of ends) end.delete(own);
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
