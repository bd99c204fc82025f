/** Serves turns while faults are injected: turns take another route where they can, and some clients leave. */
import { RequestError } from '../../errors.ts';
import { FAULT_KINDS, type Fault, type FaultKind, makeSchedule } from '../../faults/schedule.ts';
import type { GeneratedToken, GenerateRequest } from '../../router/turn-types.ts';
import type { SimulatedCluster } from '../cluster.ts';
import type { Served } from './load.ts';

export interface FaultPlan {
  /** Number of planned faults. A fault that finds no target does not happen. */
  faults: number;
  /** Expected number of requests, over which the faults are spread. */
  span: number;
}

/** Conversations that a fault starts, and never ends, to fill pools. */
const FILLERS = 3;
const FILLER_TOKENS = 64;

export class StormyLoad implements Served {
  readonly clock: Served['clock'];
  /** Faults that happened, by kind. */
  readonly happened = new Map<FaultKind, number>();
  readonly #cluster: SimulatedCluster;
  readonly #open = new Set<AbortController>();
  #fillers = 0;

  /** Starts the cluster's storm and replaces engines that die. The cluster must have been built with faults. */
  constructor(cluster: SimulatedCluster, { faults, span }: FaultPlan, seed: number) {
    this.#cluster = cluster;
    this.clock = cluster.clock;
    cluster.fleet.replaceTheDead();
    const schedule = makeSchedule(seed, { kinds: FAULT_KINDS, faults, span });
    const callers = { leave: (all: boolean) => this.#leave(all), fill: () => this.#fill() };
    cluster.storm?.begin(schedule, callers, ({ kind }: Fault) => {
      this.happened.set(kind, (this.happened.get(kind) ?? 0) + 1);
    });
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const leave = new AbortController();
    const signal = request.signal ? AbortSignal.any([request.signal, leave.signal]) : leave.signal;
    this.#open.add(leave);
    try {
      yield* this.#cluster.generate({ ...request, signal, failover: true });
    } finally {
      this.#open.delete(leave);
    }
  }

  endConversation(conversationId: string): Promise<void> {
    return this.#cluster.endConversation(conversationId);
  }

  /** Aborts the latest request that waits; none if `all`, since here clients do not give up on an engine that hangs. */
  #leave(all: boolean): void {
    const last = all ? undefined : [...this.#open].at(-1);
    if (!last) return;
    // A client leaves only once.
    this.#open.delete(last);
    last.abort(new RequestError('the client left'));
  }

  #fill(): void {
    for (let i = 0; i < FILLERS; i++) void this.#filler(`filler-${++this.#fillers}`);
  }

  async #filler(conversationId: string): Promise<void> {
    const promptTokenIds = Array.from({ length: FILLER_TOKENS }, (_, i) => 8 + ((i * this.#fillers) % 97));
    const sampling = { maxTokens: 1, ignoreEos: true };
    try {
      for await (const _ of this.#cluster.generate({ conversationId, promptTokenIds, sampling }));
    } catch {
      // A filler may fail.
    }
  }
}
