/** Who asks a fleet to which things happen: turns go another way where they can, and some of those who wait leave. */
import { RequestError } from '../errors.ts';
import { FAULT_KINDS, type Fault, type FaultKind, makeSchedule } from '../faults/schedule.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { Served } from './load.ts';

export interface FaultPlan {
  /** How many are planned; one that finds nobody does not happen. */
  faults: number;
  /** Requests that are expected: faults are spread over so many. */
  span: number;
}

/** Conversations that come and are not ended, when pools are to be filled. */
const FILLERS = 3;
const FILLER_TOKENS = 64;

export class StormyLoad implements Served {
  readonly clock: Served['clock'];
  /** By what happened. */
  readonly happened = new Map<FaultKind, number>();
  readonly #cluster: SimulatedCluster;
  readonly #open = new Set<AbortController>();
  #fillers = 0;

  /** The cluster has a storm, which begins. */
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

  /** The last one to come of those that wait; of an engine that hangs all wait on. */
  #leave(all: boolean): void {
    const last = all ? undefined : [...this.#open].at(-1);
    if (!last) return;
    // Nobody leaves twice.
    this.#open.delete(last);
    last.abort(new RequestError('its client left'));
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
      // Nobody waits for it.
    }
  }
}
