/**
 * Changes a fleet while it serves: engines join, leave, and replace those that ended, one change at a time. Which
 * ones and how they drain is decided in src/router/scaling; engines are started and ended here.
 */
import type { Clock } from '../engine/types.ts';
import { ConflictError, deathReason, RequestError } from '../errors.ts';
import { oneAtATime } from '../one-at-a-time.ts';
import type { Conversation } from '../router/conversation.ts';
import type { ConversationCache } from '../router/conversations.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { type DrainRule, drainEngine, successorOf } from '../router/scaling/drain.ts';
import { planScale, type Scalable, type ScaleTarget } from '../router/scaling/plan.ts';
import type { TurnsByEngine } from '../router/turns-by-engine.ts';
import { sum } from '../sum.ts';
import type { EnginePool, PooledEngine } from './engine-pool.ts';
import type { Joined, Left, MembershipNotice, ScaleReport } from './scale-report.ts';
import type { Seat } from './seats.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { ClusterOptions } from './types.ts';

/** An engine in a thread, or a simulated one. */
export interface Member
  extends PooledEngine,
    Pick<Seat, 'name' | 'combined' | 'roleset'>,
    Pick<ThreadEngine, 'load' | 'startMs' | 'remaining'> {
  readonly started: Pick<ThreadEngine['started'], 'loadMs' | 'compileMs'>;
}

export interface MembershipDeps<E extends Member = ThreadEngine> {
  pool: EnginePool<E>;
  clock: Clock;
  conversations: ConversationCache;
  turns: TurnsByEngine;
  /** The active settings. */
  options: () => Pick<ClusterOptions, 'mode'>;
  /** The engine as the router knows it. */
  clientOf: (engine: E) => EngineClient;
  /** Throws AdapterError if the additional engines do not fit. */
  checkRoom: (more: readonly Pick<Seat, 'name' | 'role' | 'roleset'>[]) => void;
  /** Called when the engine can serve, before anything knows of it. */
  joins: (engine: E, seat: Seat, replaced: E | null) => Promise<void>;
  /** Called after each change. */
  notify: (notice: MembershipNotice) => void;
  /** Creates a request id from a name. */
  newId: (name: string) => string;
  /** Called when a leaving engine's hold for a next turn is lost. */
  onLost?: (conversation: Conversation, tokens: number) => void;
  /** Called before another engine takes the hold over by this request. */
  onMove?: (conversation: Conversation, requestId: string) => void;
}

export class Membership<E extends Member = ThreadEngine> {
  readonly #deps: MembershipDeps<E>;
  readonly #leaving = new Set<E>();
  readonly #ends: (() => void)[] = [];
  #scaling = false;
  #closed = false;
  /** For changes of the engines, so that none is built while another is changed. */
  readonly inTurn = oneAtATime();

  constructor(deps: MembershipDeps<E>) {
    this.#deps = deps;
  }

  /** The fleet is being scaled; settings must not change. */
  get changing(): boolean {
    return this.#scaling;
  }

  /** Throws RequestError after close(). */
  checkOpen(): void {
    if (this.#closed) throw new RequestError('the cluster is closed: start another');
  }

  isLeaving(engine: E): boolean {
    return this.#leaving.has(engine);
  }

  /** Engines that may get turns, ended ones included. */
  get staying(): readonly E[] {
    const { all } = this.#deps.pool;
    return this.#leaving.size === 0 ? all : all.filter((engine) => !this.#leaving.has(engine));
  }

  /**
   * Scales to the target. Resolves when new engines serve and leaving ones are gone. Throws RequestError for an
   * impossible target, ConflictError while another change is under way, and AdapterError if memory is too small.
   * Engines that had joined before the error stay.
   */
  async scale(target: ScaleTarget, rule: DrainRule): Promise<ScaleReport> {
    this.checkOpen();
    if (this.#scaling) throw new ConflictError('the fleet is being scaled: wait until that is done');
    this.#scaling = true;
    try {
      const { pool, options, checkRoom, notify } = this.#deps;
      const { add, remove } = planScale(target, this.#scalable());
      if (add.length > 0) checkRoom(add);
      const joined: Joined[] = [];
      for (const seat of add) {
        if (this.#closed) throw new RequestError('the fleet was closed while it was being scaled');
        const engine = await this.inTurn(() => pool.add(seat, options().mode, this.#deps.joins));
        const { engineId, role, name, startMs, started } = engine;
        joined.push({ engineId, role, name, startMs, loadMs: started.loadMs, compileMs: started.compileMs });
        notify({ kind: 'joined', ...joined.at(-1)! });
      }
      return { joined, left: await Promise.all(remove.map((name) => this.#leave(name, rule))) };
    } finally {
      this.#scaling = false;
    }
  }

  /** Replaces engines that ended and are not leaving; returns how many. After close(), none. */
  async revive(): Promise<number> {
    const { pool, options, notify } = this.#deps;
    try {
      const stays = (engine: E) => !this.#closed && !this.#leaving.has(engine);
      return await this.inTurn(() => pool.replaceDead(options().mode, this.#deps.joins, stays));
    } finally {
      notify({ kind: 'revived' });
    }
  }

  /** `end` is called when the cluster closes; an autoscaler stops then. */
  atClose(end: () => void): void {
    this.#ends.push(end);
  }

  /** Ends all engines, including those that are just starting. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const end of this.#ends.splice(0)) end();
    await this.#deps.pool.shutdown();
    await this.inTurn(async () => {});
    await this.#deps.pool.shutdown();
  }

  async #leave(name: string, rule: DrainRule): Promise<Left> {
    const { pool, clientOf, notify } = this.#deps;
    // An engine that is just being replaced has a successor, which then leaves instead.
    const engine = await this.inTurn(async () => {
      const found = pool.all.find((each) => each.name === name)!;
      this.#leaving.add(found);
      return found;
    });
    const { engineId, role } = engine;
    notify({ kind: 'leaving', engineId, role, name });
    const successor = () => {
      const to = successorOf(engine, this.staying);
      return to && clientOf(to);
    };
    const leaving = { client: clientOf(engine), remaining: () => engine.remaining() };
    const report = await drainEngine(leaving, rule, { ...this.#deps, successor });
    const ended = engine.ended && deathReason(engine.ended);
    await this.inTurn(() => pool.remove(engine));
    this.#leaving.delete(engine);
    const left = { engineId, role, name, ...report, ended };
    notify({ kind: 'left', ...left });
    return left;
  }

  #scalable(): Scalable[] {
    const { turns, conversations } = this.#deps;
    return this.staying.map(({ name, engineId, role, combined, roleset, ended }) => {
      const held = conversations.heldAt(engineId).map(({ kv }) => kv?.params.remote_num_tokens ?? 0);
      return {
        ...{ name, role, combined, roleset, ended: ended !== null, turns: turns.at(engineId) },
        heldTokens: sum(held),
      };
    });
  }
}
