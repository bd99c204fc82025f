/**
 * Injects faults into a real or simulated cluster: into channels, engines as the router sees them, clocks, devices, holds and
 * callers.
 */
import type { Clock } from '../../engine/types.ts';
import { FaultyClient } from '../../faults/client.ts';
import { isMessageFault, type MessageFault } from '../../faults/messages.ts';
import { type Fault, FaultClock, type FaultKind, type Stage } from '../../faults/schedule.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { ClusterNotice } from '../../fleet/notices.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import type { LabApi } from '../../host/engine-api.ts';
import { oneAtATime } from '../../one-at-a-time.ts';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';

/** Milliseconds: long compared with a step, short compared with a lease. */
const LATE_MS = 60;
const HANG_MS = 120;
const STALL_MS = 150;
/** Milliseconds: longer than a lease, so that the lease expires early. */
const JUMP_MS = 5000;

/** Faults of callers, which are not part of a cluster. */
export interface Callers {
  /** The newest waiting caller, or all of them, disconnect. */
  leave(all: boolean): void;
  /** Starts new conversations, which are not ended. */
  fill(): void;
}

/** The part of an engine that faults use. */
export interface HarmedEngine {
  readonly engineId: string;
  readonly ended: Error | null;
  readonly lab: Pick<LabApi, 'loseDevice' | 'exhaustDevice' | 'moveClock' | 'expireHolds'>;
  shutdown(): Promise<void>;
}

export interface HarmedFleet {
  /** The current engines, including ended ones. */
  readonly engines: readonly HarmedEngine[];
  /** The first serving engine of the role; if none serves, an ended one. */
  engine(role: EngineRole): HarmedEngine;
  revive(): Promise<number>;
  /** Drains one of the role's engines, and starts another in its place. null: it is the only one. */
  scaleDown(role: EngineRole): Promise<unknown> | null;
  /** Calls the listener when a request enters a stage. */
  onStage(listener: (stage: Stage) => void): void;
}

/** The channels between engines. */
export interface HarmedWires {
  /** Applies the fault to the next message that the engine sends to another, and then calls `met`. */
  arm(engineId: string, fault: MessageFault, met: () => void): void;
  /** Delivers late messages now; armed faults stay. */
  deliverLate(): void;
  /** Disarms all faults, and delivers late messages. */
  heal(): void;
}

/** Created before the cluster, because the cluster's hooks need it. attach() connects it to the running cluster. */
export class Storm {
  readonly #clock: Clock;
  readonly #wires: HarmedWires;
  readonly #clients = new Map<string, FaultyClient>();
  #cluster: HarmedFleet | null = null;
  #faults: FaultClock | null = null;
  #callers: Callers | null = null;
  #happened: (fault: Fault) => void = () => {};
  /** Two concurrent calls would both replace the same engine. */
  readonly #replacing = oneAtATime();
  /** A fleet refuses to be scaled while it is. */
  readonly #scaling = oneAtATime();
  #underWay = new Set<Promise<unknown>>();
  /** Milliseconds by which each engine's clock has jumped. */
  readonly #jumped = new Map<HarmedEngine, number>();
  enginesReplaced = 0;

  constructor(clock: Clock, wires: HarmedWires) {
    this.#clock = clock;
    this.#wires = wires;
  }

  /** Wraps the client that the router uses for an engine; for the cluster's hooks. */
  readonly client = (engine: EngineClient): EngineClient => {
    const client = new FaultyClient(engine, this.#clock);
    this.#clients.set(engine.engineId, client);
    return client;
  };

  attach(cluster: HarmedFleet): void {
    this.#cluster = cluster;
    cluster.onStage((stage) => this.#faults?.reached(stage));
  }

  /** `happened` is called for each fault that took effect. */
  begin(schedule: readonly Fault[], callers: Callers, happened: (fault: Fault) => void): void {
    this.#callers = callers;
    this.#happened = happened;
    this.#faults = new FaultClock(schedule, (fault) => this.#track(this.#strike(fault)));
  }

  /** Ends the faults: delivers late messages and replaces ended engines. */
  async calm(): Promise<void> {
    this.#faults = null;
    for (const client of this.#clients.values()) client.heal();
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    this.#wires.heal();
    await this.#replace();
  }

  /** Undoes the clock jumps. */
  async setClocksRight(): Promise<void> {
    for (const [engine, ms] of this.#jumped)
      if (!engine.ended) await engine.lab.moveClock({ jumpMs: -ms }).catch(() => {});
    this.#jumped.clear();
  }

  #track(promise: Promise<unknown>): void {
    // Errors are expected: the engine may end at any time.
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
      if (kind === 'scale-down') return this.#scaleDown(target, happened);
      if (isMessageFault(kind)) {
        this.#wires.arm(engine.engineId, kind, () => {
          happened();
          if (kind === 'delay' || kind === 'reorder')
            this.#track(this.#clock.sleep(LATE_MS).then(() => this.#wires.deliverLate()));
        });
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

  #scaleDown(role: EngineRole, happened: () => void): Promise<void> {
    return this.#scaling(async () => {
      const scaled = this.#cluster!.scaleDown(role);
      if (scaled === null) return;
      happened();
      await scaled;
    });
  }

  #replace(): Promise<void> {
    return this.#replacing(async () => {
      // An ended engine's thread is about to exit; wait for it.
      for (const engine of this.#cluster!.engines) if (engine.ended) await engine.shutdown();
      this.enginesReplaced += await this.#cluster!.revive();
    });
  }
}

/** The stage that begins with this event of an engine of this role; null: none. */
export function stageOf(role: EngineRole, said: string): Stage | null {
  if (said === 'pull') return role === 'prefill' ? 'pulling' : 'handing over';
  if (said === 'transfer') return role === 'prefill' ? 'computing' : null;
  return said === 'outputs' && role === 'decode' ? 'streaming' : null;
}

/** Scales a role down by one engine, and up again. null: of its first engine's roleset there is only one. */
export function scaledDown(
  role: EngineRole,
  staying: readonly Pick<ThreadEngine, 'role' | 'combined' | 'roleset'>[],
  scale: (target: ScaleTarget) => Promise<unknown>,
): Promise<unknown> | null {
  const ofRole = staying.filter((engine) => engine.role === role && !engine.combined);
  const roleset = ofRole[0]?.roleset;
  const count = ofRole.filter((engine) => engine.roleset === roleset).length;
  if (roleset === undefined || count < 2) return null;
  return scale({ [role]: count - 1, roleset }).then(() => scale({ [role]: count, roleset }));
}

export const harmedCluster = (cluster: EngineCluster): HarmedFleet => ({
  get engines() {
    return cluster.engines;
  },
  engine: (role) => cluster.engine(role),
  revive: () => cluster.revive(),
  scaleDown: (role) => scaledDown(role, cluster.members.staying, (target) => cluster.scale(target)),
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
