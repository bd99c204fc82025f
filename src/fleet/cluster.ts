/**
 * A cluster: engines in threads behind one generate(). Starts and configures them, and lets the router serve turns
 * over them. How a turn passes through the engines is up to the router (src/router).
 */

import { PULL_POLICIES } from '../config/kv-transfer.ts';
import type { Mode } from '../config/modes.ts';
import { unknownSampling } from '../engine/sampling.ts';
import type { Clock } from '../engine/types.ts';
import { ConflictError, RequestError } from '../errors.ts';
import type { TimingMode } from '../measure/spans/profile.ts';
import { systemClock } from '../platform/clock.ts';
import type { Platform } from '../platform/types.ts';
import type { ConversationHistory } from '../router/conversation.ts';
import { release } from '../router/next-turn-hold.ts';
import { unguessable } from '../router/request-id.ts';
import { takeBack } from '../router/rewind.ts';
import { Router } from '../router/router.ts';
import { checkRule, type DrainRule, WAIT_30S } from '../router/scaling/drain.ts';
import type { ScaleTarget } from '../router/scaling/plan.ts';
import type { GeneratedToken, GenerateRequest } from '../router/turn-types.ts';
import { type BuiltPolicy, buildPolicy } from './active-routing.ts';
import { describe } from './describe.ts';
import type { ClusterHooks } from './hooks.ts';
import { Membership } from './membership.ts';
import type { ClusterNotice } from './notices.ts';
import { changed, engineCore, fleetIn, handoverOf, hasWindows } from './options.ts';
import { Routings } from './routings.ts';
import { type MembershipNotice, type ScaleReport, scaleSpan } from './scale-report.ts';
import type { Seat } from './seats.ts';
import { ShownCluster } from './shown-cluster.ts';
import { type ClusterParts, startParts } from './start.ts';
import type { ThreadEngine } from './thread-engine.ts';
import type { Cluster, ClusterInfo, ClusterOptions, PolicyChange } from './types.ts';

export class EngineCluster extends ShownCluster implements Cluster {
  #info: ClusterInfo;
  /** #options: the active settings. #atStart: those at the start, which determine the engines' memory. */
  #options: ClusterOptions;
  #atStart: ClusterOptions;
  readonly #router: Router;
  /** Which engines stay and which are leaving. */
  readonly members: Membership;
  readonly #routings: Routings;
  /** Turns under way, and changes of settings; never both at once. */
  #active = 0;
  #changing = 0;

  private constructor(parts: ClusterParts) {
    super(parts);
    const { options, pool, text, info, policy, clock, clientOf } = parts;
    this.#options = options;
    this.#atStart = options;
    const notify = (notice: ClusterNotice): void => this.watches.engines.notify(notice);
    this.#router = new Router({
      text,
      prompts: this.prompts,
      conversations: this.conversations,
      clock,
      routing: (name) => this.#routings.of(name),
      placement: { mode: options.placement ?? 'pooled', rolesets: fleetIn(options).rolesets },
      settings: () => {
        const { mode, link } = this.#options;
        const throttled = link !== null || fleetIn(this.#options).links.length > 0;
        return { mode, handover: handoverOf(this.#options), throttled };
      },
      engines: () => this.members.staying.map(clientOf),
      onTurn: (turn) => notify({ kind: 'turn', ...turn }),
      onTurnEnd: (result) => notify({ kind: 'turn ended', result }),
      onTurnFail: (turn) => notify({ kind: 'turn failed', ...turn }),
      onRequest: (request) => notify({ kind: 'request', ...request }),
      newId: unguessable,
      maxModelLen: options.maxModelLen,
      spans: this.watches.spans,
    });
    this.members = new Membership({
      pool,
      clock,
      conversations: this.conversations,
      turns: this.#router.turnsAt,
      options: () => this.#options,
      clientOf,
      checkRoom: (more) => parts.checkRoom(this.#options, more),
      joins: (engine, seat, replaced) => this.#joins(engine, seat, replaced),
      notify: (notice) => this.#memberNotice(notice),
      newId: unguessable,
      onMove: ({ id }, requestId) => notify({ kind: 'moves', conversationId: id, requestId }),
    });
    this.#info = info;
    this.#routings = new Routings(pool, this.watches, policy, options);
  }

  /** Throws KvferryError; nothing is left running then. */
  static async start(
    platform: Platform,
    options: ClusterOptions,
    clock: Clock = systemClock,
    hooks: ClusterHooks = {},
  ): Promise<EngineCluster> {
    return new EngineCluster(await startParts(platform, options, clock, hooks));
  }

  get info(): ClusterInfo {
    return this.#info;
  }

  get mode(): Mode {
    return this.#options.mode;
  }

  get settings(): Readonly<ClusterOptions> {
    return this.#options;
  }

  async setMode(mode: Mode): Promise<void> {
    await this.configure({ mode });
  }

  async configure(change: PolicyChange): Promise<void> {
    let before: ClusterOptions;
    let options: ClusterOptions;
    let policy: BuiltPolicy;
    do {
      before = this.#options;
      options = changed(before, this.#atStart, change);
      policy = await buildPolicy(options, this.#info.model.blockBytes);
      // Another change, or an engine that joined or left, was completed meanwhile; start from that.
    } while (this.#options !== before);
    this.members.checkOpen();
    if (this.members.changing)
      throw new RequestError('the fleet is being scaled: wait for that before changing settings');
    if (this.#active > 0)
      throw new RequestError(`turns are under way (${this.#active}): wait for them before changing settings`);
    this.conversations.clear();
    // An engine that ends meanwhile is rebuilt with the new settings.
    this.#options = options;
    this.#info = { ...this.#info, link: options.link };
    this.#changing++;
    try {
      await this.members.inTurn(async () => {
        // Give up stuck engines first, so that they do not block the change.
        await this.pool.each((engine) => engine.answers());
        await this.pool.each(({ serving }) => serving.releaseHolds('all'));
        await this.pool.each((engine, seat) => reconfigure(engine, seat, options));
        await this.store?.clear();
        await this.store?.setLink(options.link);
      });
    } finally {
      // Only now, so that the new policy learns nothing of the caches before.
      this.#routings.replace(policy, options);
      this.#changing--;
    }
  }

  override async setTiming(mode: TimingMode | null): Promise<boolean> {
    this.members.checkOpen();
    return super.setTiming(mode);
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    if (this.#changing > 0) throw new RequestError('settings are being changed: wait until that is done');
    const { pull } = request;
    if (pull && !PULL_POLICIES.includes(pull))
      throw new RequestError(`pull is '${pull}': wanted one of ${PULL_POLICIES.join(', ')}`);
    const unknown = unknownSampling(request.sampling ?? {});
    if (unknown) throw new RequestError(unknown);
    this.#active++;
    let leave = (): void => {};
    try {
      if (request.routing)
        leave = await this.#routings.enter(request.routing, this.#options, this.#info.model.blockBytes);
      yield* this.#router.serve(request);
    } finally {
      leave();
      this.#active--;
    }
  }

  async rewind(conversationId: string, prefillKeeps?: number): Promise<void> {
    const conversation = this.conversations.known(conversationId);
    const unused = await takeBack(conversationId, conversation, prefillKeeps ?? null, {
      blockSize: this.#options.blockSize,
      windowed: hasWindows(this.#options),
      clock: this.clock,
      newId: unguessable,
    });
    if (unused) release(unused);
  }

  /** Continues an earlier conversation as if its last turn had ended here. No engine holds anything for it. */
  resumeConversation(conversationId: string, history: ConversationHistory): void {
    this.conversations.resume(conversationId, history);
  }

  async endConversation(conversationId: string): Promise<void> {
    this.conversations.forget(conversationId);
  }

  revive(): Promise<number> {
    return this.members.revive();
  }

  /** `why`: the reason, recorded in the span. */
  async scale(target: ScaleTarget, drain?: DrainRule, why = 'asked for'): Promise<ScaleReport> {
    if (this.#changing > 0) throw new ConflictError('settings are being changed: wait until that is done');
    if (drain !== undefined) checkRule(drain);
    const begunMs = this.clock.now();
    // Give up stuck engines first: they then count as ended, and leave before others.
    await this.pool.each((engine) => engine.answers());
    const report = await this.members.scale(target, drain ?? this.#options.drain ?? WAIT_30S);
    this.watches.spans.report(scaleSpan(begunMs, this.clock.now(), report, why));
    return report;
  }

  /** Keeps the engine from leaving the fleet until the returned function is called. */
  keep(engineId: string): () => void {
    return this.#router.turnsAt.enter([engineId]);
  }

  async close(): Promise<void> {
    await Promise.all([this.members.close(), this.store?.shutdown()]);
  }

  async #joins(engine: ThreadEngine, seat: Seat, replaced: ThreadEngine | null): Promise<void> {
    await reconfigure(engine, seat, this.#options);
    await this.store?.connect(engine);
    this.watches.joined(engine, replaced?.engineId ?? null, this.clock.now());
    this.#routings.follow(engine);
  }

  #memberNotice(notice: MembershipNotice): void {
    const { fleet } = this.pool;
    this.#options = { ...this.#options, fleet };
    this.#atStart = { ...this.#atStart, fleet };
    const { engines } = describe(this.#atStart, this.pool, this.text, 0);
    this.#info = { ...this.#info, engines };
    this.watches.engines.notify(notice);
  }
}

const reconfigure = (engine: ThreadEngine, seat: Seat, options: ClusterOptions): Promise<void> =>
  engine.serving.reconfigure(engineCore(options, seat, engine.engineId, options.mode), options.link);
