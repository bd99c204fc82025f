/**
 * An engine on its way out: it gets no new turns (whoever plans no longer sees it), those under way end, and what it holds
 * for next turns is served, taken over by another engine, or lost and counted. Ends nothing itself. Drives itself by the
 * clock that it is given.
 */
import type { Drain } from '../../config/autoscale.ts';
import type { Clock } from '../../engine/types.ts';
import { RequestError } from '../../errors.ts';
import type { Conversation, ConversationCache } from '../conversations.ts';
import type { EngineClient } from '../engine-client.ts';
import { type HeldForNextTurn, release } from '../held.ts';
import type { TurnsAt } from '../turns-at.ts';
import { migrate } from './migrate.ts';

export interface DrainRule {
  drain: Drain;
  /** How long what is held is waited for, at most; turns under way are waited for however long they take, while their engine answers. */
  holdsMs: number;
}

/** P computes again what nobody came for in the time that an orchestrator usually gives (Kubernetes' 30 s). */
export const WAIT_30S: DrainRule = { drain: 'wait', holdsMs: 30_000 };

export interface Leaving {
  client: EngineClient;
  /**
   * Whoever asked for them: requests that have not ended, and ended ones whose blocks a reader may come for. Of one that does
   * not answer nothing, and it has ended then: its turns go another way.
   */
  remaining(): Promise<{ requests: number; holds: number }>;
}

export interface DrainDeps {
  clock: Clock;
  conversations: ConversationCache;
  turns: TurnsAt;
  /** Who takes over what the engine holds; null: nobody can. */
  heir: () => EngineClient | null;
  newId: (name: string) => string;
  /** What it held for the conversation's next turn is lost. */
  onLost?: (conversation: Conversation, tokens: number) => void;
  /** The heir is about to get this request, which takes it over. */
  onMove?: (conversation: Conversation, requestId: string) => void;
}

export interface DrainReport {
  /** From its last chance of a new turn to the end of all that it had. */
  ms: number;
  /** Of next turns, by what became of them. */
  migrated: { holds: number; tokens: number };
  /** `tokens` of those whose conversation is known here. */
  lost: { holds: number; tokens: number };
}

/** How often what nobody tells is looked at. */
const LOOK_MS = 20;

export async function drained(leaving: Leaving, rule: DrainRule, deps: DrainDeps): Promise<DrainReport> {
  const over = new AbortController();
  const done = new AbortController();
  void deps.clock
    .sleep(rule.holdsMs, done.signal)
    .then(() => over.abort(new RequestError('its time is over')));
  try {
    return await drain(leaving, rule, deps, over.signal);
  } finally {
    done.abort();
  }
}

/** `signal`: aborts when what is held is waited for no longer. */
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
  const late = () => clock.now() - begunMs >= rule.holdsMs;
  for (;;) {
    const waits = rule.drain === 'wait' && !late() && client.ended === null;
    for (const conversation of waits ? [] : conversations.heldAt(engineId)) {
      const held = conversation.kv;
      // Others go on while one is moved.
      if (held?.holder.engineId !== engineId) continue;
      const moved = rule.drain === 'migrate' && !late() && (await takenOver(conversation, deps, signal));
      count(moved ? report.migrated : report.lost, held);
      if (!moved) deps.onLost?.(conversation, held.params.remote_num_tokens ?? 0);
      if (moved || conversation.kv !== held) continue;
      conversation.kv = null;
      release(held);
    }
    const left = client.ended ? { requests: 0, holds: 0 } : await remaining();
    const needed = turns.at(engineId) > 0 || conversations.heldAt(engineId).length > 0 || left.requests > 0;
    if (!needed && (left.holds === 0 || late())) {
      report.lost.holds += left.holds;
      return { ms: clock.now() - begunMs, ...report };
    }
    await clock.sleep(LOOK_MS);
  }
}

/** False: it is lost, and nobody holds it any more. A turn that comes meanwhile waits for the outcome. */
async function takenOver(
  conversation: Conversation,
  { clock, conversations, heir, newId, onMove }: DrainDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const to = heir();
  if (!to) return false;
  return conversations.move(conversation, async (held) => {
    const requestId = newId(`${conversation.id}-moves`);
    onMove?.(conversation, requestId);
    const taken = await migrate(held, to, conversation.cacheSalt, requestId, clock, signal);
    // The reader told its holder, if that went well.
    release(held);
    return taken;
  });
}

function count(sum: { holds: number; tokens: number }, { params }: HeldForNextTurn): void {
  sum.holds++;
  sum.tokens += params.remote_num_tokens ?? 0;
}

type Able = Pick<EngineClient, 'role' | 'roleset' | 'ended' | 'load'>;

/** Who takes over: the least busy of those that do the same, of the same roleset where there is one. */
export function heirOf<T extends Able>(leaving: Able, staying: readonly T[]): T | null {
  const able = staying.filter(({ role, ended }) => role === leaving.role && ended === null);
  const near = able.filter(({ roleset }) => roleset === leaving.roleset);
  const [first, ...others] = near.length > 0 ? near : able;
  if (!first) return null;
  return others.reduce((best, other) => (other.load.inFlight < best.load.inFlight ? other : best), first);
}
