/**
 * Puts faults into a cluster, real or simulated, each at its seam: channels, engines as the router sees them, clocks, devices,
 * holds, callers.
 */
import type { Clock } from '../../engine/types.ts';
import { FaultyClient } from '../../faults/client.ts';
import { isMessageFault, type MessageFault } from '../../faults/messages.ts';
import { type Fault, FaultClock, type FaultKind, type Stage } from '../../faults/schedule.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { ClusterNotice } from '../../fleet/notices.ts';
import type { LabApi } from '../../host/engine-api.ts';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';

/** Milliseconds: long beside a step, short beside a lease. */
const LATE_MS = 60;
const HANG_MS = 120;
const STALL_MS = 150;
/** Beyond a lease, so that it ends too soon. */
const JUMP_MS = 5000;

/** What faults do to callers, who are no part of a cluster. */
export interface Callers {
  /** One, or all, of those who wait for an answer go. */
  leave(all: boolean): void;
  /** New conversations come, and are not ended. */
  fill(): void;
}

/** An engine, as far as faults take one. */
export interface HarmedEngine {
  readonly engineId: string;
  readonly ended: Error | null;
  readonly lab: Pick<LabApi, 'loseDevice' | 'exhaustDevice' | 'moveClock' | 'expireHolds'>;
  shutdown(): Promise<void>;
}

export interface HarmedFleet {
  /** Those that have a place now, ended ones included. */
  readonly engines: readonly HarmedEngine[];
  /** The role's first that serves, if one does. */
  engine(role: EngineRole): HarmedEngine;
  revive(): Promise<number>;
  /** Told when a request has come to a stage. */
  onStage(listener: (stage: Stage) => void): void;
}

/** What lies between engines. */
export interface HarmedWires {
  /** Meets the next message that the engine sends to any other. */
  arm(engineId: string, fault: MessageFault, met: () => void): void;
  heal(): void;
}

/** Made before the cluster, for its seams; told of the cluster once that runs. */
export class Storm {
  readonly #clock: Clock;
  readonly #wires: HarmedWires;
  readonly #clients = new Map<string, FaultyClient>();
  #cluster: HarmedFleet | null = null;
  #faults: FaultClock | null = null;
  #callers: Callers | null = null;
  #happened: (fault: Fault) => void = () => {};
  #replacing: Promise<unknown> = Promise.resolve();
  #underWay = new Set<Promise<unknown>>();
  /** Clocks that jumped, by engine, milliseconds. */
  readonly #jumped = new Map<HarmedEngine, number>();
  enginesReplaced = 0;

  constructor(clock: Clock, wires: HarmedWires) {
    this.#clock = clock;
    this.#wires = wires;
  }

  /** What the router sees in place of an engine; for a cluster's seams. */
  readonly client = (engine: EngineClient): EngineClient => {
    const client = new FaultyClient(engine, this.#clock);
    this.#clients.set(engine.engineId, client);
    return client;
  };

  over(cluster: HarmedFleet): void {
    this.#cluster = cluster;
    cluster.onStage((stage) => this.#faults?.reached(stage));
  }

  /** `happened` is called for each fault that found somebody to happen to. */
  begin(schedule: readonly Fault[], callers: Callers, happened: (fault: Fault) => void): void {
    this.#callers = callers;
    this.#happened = happened;
    this.#faults = new FaultClock(schedule, (fault) => this.#track(this.#strike(fault)));
  }

  /** Nothing new happens, what is late arrives, every engine lives. */
  async calm(): Promise<void> {
    this.#faults = null;
    for (const client of this.#clients.values()) client.heal();
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    this.#wires.heal();
    await this.#replace();
  }

  /** Clocks that jumped go back. */
  async setClocksRight(): Promise<void> {
    for (const [engine, ms] of this.#jumped)
      if (!engine.ended) await engine.lab.moveClock({ jumpMs: -ms }).catch(() => {});
    this.#jumped.clear();
  }

  #track(promise: Promise<unknown>): void {
    // An engine that ends meanwhile is what this is about.
    const quiet = promise.catch(() => {}).finally(() => this.#underWay.delete(quiet));
    this.#underWay.add(quiet);
  }

  async #strike(fault: Fault): Promise<void> {
    const { kind, target } = fault;
    const engine = this.#cluster!.engine(target);
    const happened = (): void => this.#happened(fault);
    if (kind === 'leave' || kind === 'fill') {
      happened();
      if (kind === 'leave') this.#callers!.leave(false);
      else this.#callers!.fill();
    } else if (!engine.ended) {
      if (isMessageFault(kind)) {
        this.#wires.arm(engine.engineId, kind, happened);
        if (kind === 'delay' || kind === 'reorder')
          await this.#clock.sleep(LATE_MS).then(() => this.#wires.heal());
        return;
      }
      happened();
      await this.#harm(kind, engine);
    }
  }

  async #harm(kind: FaultKind, engine: HarmedEngine): Promise<void> {
    const client = this.#clients.get(engine.engineId);
    switch (kind) {
      case 'lose-device':
        return engine.lab.loseDevice();
      case 'out-of-memory':
        return engine.lab.exhaustDevice();
      case 'end':
        return engine.shutdown();
      case 'replace':
        await engine.shutdown();
        return this.#replace();
      case 'slow':
        return client?.slow();
      case 'hang':
        client?.hang();
        await this.#clock.sleep(HANG_MS);
        this.#callers!.leave(true);
        return client?.heal();
      case 'jump':
        this.#jumped.set(engine, (this.#jumped.get(engine) ?? 0) + JUMP_MS);
        return engine.lab.moveClock({ jumpMs: JUMP_MS });
      case 'stall':
        return engine.lab.moveClock({ stallMs: STALL_MS });
      case 'expire':
        await engine.lab.expireHolds('prefill');
        await engine.lab.expireHolds('decode');
    }
  }

  /** One after the other: two would each put an engine in the same place. */
  #replace(): Promise<void> {
    const next = this.#replacing.then(async () => {
      // It said that it cannot go on: its thread is about to end.
      for (const engine of this.#cluster!.engines) if (engine.ended) await engine.shutdown();
      this.enginesReplaced += await this.#cluster!.revive();
    });
    this.#replacing = next.catch(() => {});
    return next;
  }
}

/** By whose engine says what; null: that is no stage's beginning. */
export function stageOf(role: EngineRole, said: string): Stage | null {
  if (said === 'pull') return role === 'prefill' ? 'pulling' : 'handing over';
  if (said === 'transfer') return role === 'prefill' ? 'computing' : null;
  return said === 'outputs' && role === 'decode' ? 'streaming' : null;
}

export const harmedCluster = (cluster: EngineCluster): HarmedFleet => ({
  get engines() {
    return cluster.engines;
  },
  engine: (role) => cluster.engine(role),
  revive: () => cluster.revive(),
  onStage: (listener) => {
    cluster.onNotice((notice) => {
      const stage = stageIn(notice);
      if (stage) listener(stage);
    });
  },
});

function stageIn(notice: ClusterNotice): Stage | null {
  if (notice.kind === 'turn') return 'waiting';
  return notice.kind === 'engine' ? stageOf(notice.role, notice.event.kind) : null;
}
