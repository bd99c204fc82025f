/**
 * Who joins a fleet and who leaves it while it serves, and who takes the place of whom ended: one change after the other.
 * Whom to take and how to drain is decided in src/router/scaling; here engines are started and ended.
 */
import type { Clock } from '../engine/types.ts';
import { ConflictError, RequestError } from '../errors.ts';
import type { Conversation, ConversationCache } from '../router/conversations.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { type DrainRule, drained, heirOf } from '../router/scaling/drain.ts';
import { planScale, type Scalable, type ScaleTarget } from '../router/scaling/plan.ts';
import type { TurnsAt } from '../router/turns-at.ts';
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
  turns: TurnsAt;
  /** What is in force now. */
  options: () => Pick<ClusterOptions, 'mode'>;
  /** The engine as the router knows it. */
  clientOf: (engine: E) => EngineClient;
  /** Throws AdapterError when so many more engines do not fit. */
  checkRoom: (more: readonly Pick<Seat, 'name' | 'role' | 'roleset'>[]) => void;
  /** It can serve, and nobody knows of it yet. */
  joins: (engine: E, spec: Seat, replaced: E | null) => Promise<void>;
  /** What happened, when it has. */
  tell: (notice: MembershipNotice) => void;
  /** An id of a request, for what is called so here. */
  newId: (name: string) => string;
  /** What a leaving engine held for a next turn is lost. */
  onLost?: (conversation: Conversation, tokens: number) => void;
  /** Another one takes it over, by this request. */
  onMove?: (conversation: Conversation, requestId: string) => void;
}

export class Membership<E extends Member = ThreadEngine> {
  readonly #deps: MembershipDeps<E>;
  readonly #leaving = new Set<E>();
  readonly #ends: (() => void)[] = [];
  #scaling = false;
  #closed = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: MembershipDeps<E>) {
    this.#deps = deps;
  }

  /** An engine is being started or ended: settings should stay as they are. */
  get changing(): boolean {
    return this.#scaling;
  }

  isLeaving(engine: E): boolean {
    return this.#leaving.has(engine);
  }

  /** Those that may get turns, ended ones included. */
  get staying(): readonly E[] {
    const { all } = this.#deps.pool;
    return this.#leaving.size === 0 ? all : all.filter((engine) => !this.#leaving.has(engine));
  }

  /**
   * As many engines as wanted. Resolves when new ones serve and leaving ones are gone. Throws RequestError for what cannot
   * be, ConflictError while another change is under way, AdapterError for more than there is memory; engines that joined
   * before stay.
   */
  async scale(target: ScaleTarget, rule: DrainRule): Promise<ScaleReport> {
    if (this.#scaling) throw new ConflictError('the fleet is being scaled: wait until that is done');
    this.#scaling = true;
    try {
      const { pool, options, checkRoom, tell } = this.#deps;
      const { add, remove } = planScale(target, this.#scalable());
      if (add.length > 0) checkRoom(add);
      const joined: Joined[] = [];
      for (const seat of add) {
        if (this.#closed) throw new RequestError('the fleet was closed while it was being scaled');
        const engine = await this.inTurn(() => pool.add(seat, options().mode, this.#deps.joins));
        const { engineId, role, name, startMs, started } = engine;
        joined.push({ engineId, role, name, startMs, loadMs: started.loadMs, compileMs: started.compileMs });
        tell({ kind: 'joined', ...joined.at(-1)! });
      }
      return { joined, left: await Promise.all(remove.map((name) => this.#leave(name, rule))) };
    } finally {
      this.#scaling = false;
    }
  }

  /** Puts engines in the places of those that ended, and are not on their way out; returns how many. Once all was closed, none. */
  async revive(): Promise<number> {
    const { pool, options, tell } = this.#deps;
    try {
      const stays = (engine: E) => !this.#leaving.has(engine);
      return await this.inTurn(async () =>
        this.#closed ? 0 : pool.replaceDead(options().mode, this.#deps.joins, stays),
      );
    } finally {
      tell({ kind: 'revived' });
    }
  }

  /** Called when all ends: whoever changes the fleet by itself stops then. */
  atClose(end: () => void): void {
    this.#ends.push(end);
  }

  /** Ends all, those that are just being started too. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const end of this.#ends.splice(0)) end();
    await this.#deps.pool.shutdown();
    await this.#last.catch(() => {});
    await this.#deps.pool.shutdown();
  }

  async #leave(name: string, rule: DrainRule): Promise<Left> {
    const { pool, clock, conversations, turns, clientOf, tell, newId, onLost, onMove } = this.#deps;
    // One that is just being replaced is left to its successor: that one leaves then.
    const engine = await this.inTurn(async () => {
      const found = pool.all.find((each) => each.name === name)!;
      this.#leaving.add(found);
      return found;
    });
    const { engineId, role } = engine;
    tell({ kind: 'leaving', engineId, role, name });
    const heir = () => {
      const to = heirOf(engine, this.staying);
      return to && clientOf(to);
    };
    const remaining = () => engine.remaining();
    const leaving = { client: clientOf(engine), remaining };
    const told = { ...(onLost ? { onLost } : {}), ...(onMove ? { onMove } : {}) };
    const deps = { clock, conversations, turns, heir, newId, ...told };
    const report = await drained(leaving, rule, deps);
    await this.inTurn(() => pool.remove(engine));
    this.#leaving.delete(engine);
    const left = { engineId, role, name, ...report };
    tell({ kind: 'left', ...left });
    return left;
  }

  #scalable(): Scalable[] {
    const { turns, conversations } = this.#deps;
    return this.staying.map(({ name, engineId, role, combined, roleset, ended }) => {
      const held = conversations.heldAt(engineId).map(({ kv }) => kv?.params.remote_num_tokens ?? 0);
      return {
        ...{ name, role, combined, roleset, ended: ended !== null, turns: turns.at(engineId) },
        heldTokens: held.reduce((sum, tokens) => sum + tokens, 0),
      };
    });
  }

  /** A change of engines, after whichever is under way, however that ends: none is built while another is changed. */
  inTurn<T>(change: () => Promise<T>): Promise<T> {
    const next = this.#last.catch(() => {}).then(change);
    this.#last = next;
    return next;
  }
}
