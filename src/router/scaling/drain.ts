/**
 * Drains an engine that leaves. It gets no new turns (plans no longer see it), and those under way finish. What it
 * holds for next turns is read, taken over by another engine, or lost and counted. Ends no engine itself. Uses only
 * the clock that it is given.
 */
import { DRAINS, type Drain } from '../../config/autoscale.ts';
import type { Clock } from '../../engine/types.ts';
import { ConfigError, RequestError } from '../../errors.ts';
import type { Conversation } from '../conversation.ts';
import type { ConversationCache } from '../conversations.ts';
import type { EngineClient } from '../engine-client.ts';
import { type HeldForNextTurn, release } from '../next-turn-hold.ts';
import type { TurnsByEngine } from '../turns-by-engine.ts';
import { migrate } from './migrate.ts';

export interface DrainRule {
  drain: Drain;
  /**
   * Milliseconds to wait for holds, at most. Turns under way are waited for without limit while their engine answers.
   */
  holdsMs: number;
}

/** Waits as long as orchestrators usually allow (Kubernetes: 30 s). P computes again what was not read by then. */
export const WAIT_30S: DrainRule = { drain: 'wait', holdsMs: 30_000 };

/** For untyped callers. Throws ConfigError. */
export function checkRule(rule: DrainRule): void {
  if (DRAINS.includes(rule?.drain) && rule.holdsMs >= 0) return;
  throw new ConfigError(
    `the drain is ${JSON.stringify(rule)}: wanted one of ${DRAINS.join(', ')} and milliseconds, such as ${JSON.stringify(WAIT_30S)}`,
  );
}

export interface Leaving {
  client: EngineClient;
  /**
   * Requests at the engine, from any caller: those that have not ended, and ended ones whose blocks a reader may come
   * for. Resolves to zeros if the engine does not answer; it then counts as ended, and its turns go to other engines.
   */
  remaining(): Promise<{ requests: number; holds: number }>;
}

export interface DrainDeps {
  clock: Clock;
  conversations: ConversationCache;
  turns: TurnsByEngine;
  /** The engine that takes over the holds; null: there is none. */
  successor: () => EngineClient | null;
  newId: (name: string) => string;
  /** Called when the hold for the conversation's next turn is lost. */
  onLost?: (conversation: Conversation, tokens: number) => void;
  /** Called before the successor gets this request, which takes the hold over. */
  onMove?: (conversation: Conversation, requestId: string) => void;
}

export interface DrainReport {
  /** Milliseconds from the last possible new turn until nothing needed the engine. */
  ms: number;
  /** Holds for next turns, by what became of them. */
  migrated: { holds: number; tokens: number };
  /** `tokens` counts only conversations known here. */
  lost: { holds: number; tokens: number };
}

/** Polling interval, in milliseconds, for changes that nothing reports. */
const POLL_MS = 20;

/** Resolves when nothing needs the engine any more; the caller then ends it. */
export async function drainEngine(leaving: Leaving, rule: DrainRule, deps: DrainDeps): Promise<DrainReport> {
  const timeout = new AbortController();
  const done = new AbortController();
  void deps.clock
    .sleep(rule.holdsMs, done.signal)
    .then(() => timeout.abort(new RequestError('its time is over')));
  try {
    return await drain(leaving, rule, deps, timeout.signal);
  } finally {
    done.abort();
  }
}

/** `signal`: aborts when holds are no longer waited for. */
async function drain(
  { client, remaining }: Leaving,
  rule: DrainRule,
  deps: DrainDeps,
  signal: AbortSignal,
): Promise<DrainReport> {
  const { engineId } = client;
  const { clock, conversations, turns } = deps;
  const begunMs = clock.now();
  const report = { migrated: { holds: 0, tokens: 0 }, lost: { holds: 0, tokens: 0 } };
  const timedOut = () => clock.now() - begunMs >= rule.holdsMs;
  for (;;) {
    // No turn would read these.
    let released = conversations.releaseOld(engineId) > 0;
    const waits = rule.drain === 'wait' && !timedOut() && client.ended === null;
    for (const conversation of waits ? [] : conversations.heldAt(engineId)) {
      const held = conversation.kv;
      // The hold may have changed while another one was moved.
      if (held?.holder.engineId !== engineId) continue;
      released = true;
      const moved = rule.drain === 'migrate' && !timedOut() && (await moveHold(conversation, deps, signal));
      count(moved ? report.migrated : report.lost, held);
      if (!moved) deps.onLost?.(conversation, held.params.remote_num_tokens ?? 0);
      if (moved || conversation.kv !== held) continue;
      conversation.kv = null;
      release(held);
    }
    const left = client.ended ? { requests: 0, holds: 0 } : await remaining();
    const needed = turns.at(engineId) > 0 || conversations.heldAt(engineId).length > 0 || left.requests > 0;
    // What was released just now was counted above, and the engine may not have freed it yet.
    if (!needed && (left.holds === 0 || (timedOut() && !released))) {
      report.lost.holds += left.holds;
      return { ms: clock.now() - begunMs, ...report };
    }
    await clock.sleep(POLL_MS);
  }
}

/**
 * Resolves to false if the hold is lost; then no engine holds it. A turn that comes meanwhile waits for the outcome.
 */
async function moveHold(
  conversation: Conversation,
  { clock, conversations, successor, newId, onMove }: DrainDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const to = successor();
  if (!to) return false;
  return conversations.move(conversation, async (held) => {
    const requestId = newId(`${conversation.id}-moves`);
    onMove?.(conversation, requestId);
    const taken = await migrate(held, to, conversation.cacheSalt, requestId, clock, signal);
    // The reader has notified the holder only if its pull succeeded.
    release(held);
    return taken;
  });
}

function count(sum: { holds: number; tokens: number }, { params }: HeldForNextTurn): void {
  sum.holds++;
  sum.tokens += params.remote_num_tokens ?? 0;
}

type Able = Pick<EngineClient, 'role' | 'roleset' | 'ended' | 'load'>;

/** The engine that takes over: the least busy of the same role, from the same roleset if it has one. */
export function successorOf<T extends Able>(leaving: Able, staying: readonly T[]): T | null {
  const able = staying.filter(({ role, ended }) => role === leaving.role && ended === null);
  const near = able.filter(({ roleset }) => roleset === leaving.roleset);
  const [first, ...others] = near.length > 0 ? near : able;
  if (!first) return null;
  return others.reduce((best, other) => (other.load.inFlight < best.load.inFlight ? other : best), first);
}
