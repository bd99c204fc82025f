/** P and D, policy only, under schedules of faults: failures are reported, answers are right, and nothing stays held. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Handover } from '../../src/config/cluster-schema.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { KvferryError } from '../../src/errors.ts';
import { type Fault, FaultClock, type FaultKind, STAGES } from '../../src/faults/schedule.ts';
import type { EngineClient } from '../../src/router/engine-client.ts';
import { turnOutputs } from '../../src/router/turn-outputs.ts';
import { alone, chain, greedy, tokens } from '../engine/fakes.ts';
import { PolicyCluster, type PolicyNode } from './policy-cluster.ts';

/** The kinds that apply where messages carry no bytes and the test controls time. */
const KINDS = [
  'lose',
  'repeat',
  'lose-notice',
  'end',
  'replace',
  'jump',
  'expire',
  'leave',
  'fill',
] as const satisfies readonly FaultKind[];

const USER_TOKENS = [14, 9, 11];
const MAX_TOKENS = 6;
/** Milliseconds: longer than a lease, much shorter than D's TTL. */
const JUMP_MS = 40_000;

class Storm {
  readonly cluster: PolicyCluster;
  readonly happened = new Map<FaultKind, number>();
  readonly outcomes = { right: 0, failed: 0, left: 0 };
  readonly #faults: FaultClock;
  readonly #open = new Set<AbortController>();
  readonly #held: { holder: EngineClient; params: KvTransferParams }[] = [];
  readonly #broken: unknown[] = [];
  #armed: FaultKind[] = [];
  #talks = 0;
  #conversations = 0;
  #seen = { prefill: { loading: 0, passes: 0 }, decode: { loading: 0, passes: 0 } };

  constructor(cluster: PolicyCluster, schedule: readonly Fault[]) {
    this.cluster = cluster;
    this.#faults = new FaultClock(schedule, (fault) => this.#strike(fault));
    const meets = (kind: FaultKind): boolean => {
      const index = this.#armed.indexOf(kind);
      if (index >= 0) this.#armed.splice(index, 1);
      return index >= 0;
    };
    cluster.net.failsNext = () => meets('lose');
    cluster.net.copies = () => (meets('lose-notice') ? 0 : meets('repeat') ? 2 : 1);
  }

  /** Runs until every conversation is over. Then releases their holds, as the router does, and lets leases expire. */
  async run(conversations: number, pick: (count: number) => number): Promise<void> {
    for (let i = 0; i < conversations; i++) this.#talk(USER_TOKENS);
    await this.cluster.runUntil(
      () => {
        this.#look();
        this.#revive();
        return this.#talks === 0;
      },
      { pick },
    );
    for (const error of this.#broken) throw error;
    for (const { holder, params } of this.#held) await holder.release([params.remote_request_id!]);
    await this.cluster.settle();
    this.cluster.clock.advance(JUMP_MS);
    await this.cluster.settle();
  }

  #talk(userTokens: readonly number[]): void {
    this.#talks++;
    const id = `c${this.#conversations++}`;
    void this.#converse(id, userTokens)
      .catch((error: unknown) => this.#broken.push(error))
      .finally(() => this.#talks--);
  }

  async #converse(id: string, userTokens: readonly number[]): Promise<void> {
    let history: number[] = [];
    let held: { holder: EngineClient; params: KvTransferParams } | null = null;
    for (const [turn, count] of userTokens.entries()) {
      const prompt = [...history, ...tokens(count, chain(id.charCodeAt(1), turn))];
      const answer = await alone(prompt, { maxTokens: MAX_TOKENS });
      const offered = held?.holder.ended ? null : held;
      held = await this.#turn(`${id}.${turn}`, prompt, answer, offered?.params ?? null);
      if (offered) await offered.holder.release([offered.params.remote_request_id!]);
      history = [...prompt, ...answer];
    }
    if (held) this.#held.push(held);
  }

  async #turn(id: string, prompt: readonly number[], answer: number[], remote: KvTransferParams | null) {
    this.#faults.reached('waiting');
    const { p: prefill, d: decode, clock, handover: way } = this.cluster;
    const leave = new AbortController();
    this.#open.add(leave);
    const given: number[] = [];
    try {
      const turn = {
        requestIds: { prefill: `${id}-p`, decode: `${id}-d` },
        promptTokenIds: prompt,
        sampling: { ...greedy, maxTokens: MAX_TOKENS },
        cacheSalt: null,
        acceptedMs: clock.now(),
        remote,
        pull: null,
        signal: leave.signal,
        stopped: null,
      };
      for await (const { answers, output } of turnOutputs({ way, prefill, decode }, turn)) {
        if (answers) given.push(...output.tokens.map(({ tokenId }) => tokenId));
        if (!answers || !output.finish) continue;
        expect(given).toEqual(answer);
        this.outcomes.right++;
        const params = output.finish.kvTransferParams;
        return params && { holder: decode, params };
      }
      throw new Error(`${id} ended without an end`);
    } catch (error) {
      expect(given).toEqual(answer.slice(0, given.length));
      if (!(error instanceof KvferryError)) throw error;
      if (leave.signal.aborted) this.outcomes.left++;
      else {
        expect(['transfer', 'refused', 'engine_dead']).toContain(error.code);
        this.outcomes.failed++;
      }
      return null;
    } finally {
      this.#open.delete(leave);
    }
  }

  #strike({ kind, target }: Fault): void {
    this.happened.set(kind, (this.happened.get(kind) ?? 0) + 1);
    const node = this.#node(target);
    switch (kind) {
      case 'end':
      case 'replace':
        node.end();
        if (kind === 'replace') this.#replace(target);
        break;
      case 'jump':
        this.cluster.clock.advance(JUMP_MS);
        break;
      case 'expire':
        for (const direction of ['prefill', 'decode'] as const) node.holds.expireNow(direction);
        break;
      case 'leave':
        [...this.#open].at(-1)?.abort(new KvferryError('request', 'the client left'));
        break;
      case 'fill':
        this.#talk([20]);
        break;
      default:
        this.#armed.push(kind);
    }
  }

  /** Reports the stages that requests have reached since the last call. */
  #look(): void {
    for (const role of ['prefill', 'decode'] as const) {
      const { waitingForRemote: loading, forwardPasses: passes } = this.#node(role).core.inspect.stats();
      const seen = this.#seen[role];
      this.#seen[role] = { loading, passes };
      if (loading > seen.loading) this.#faults.reached(role === 'prefill' ? 'pulling' : 'handing over');
      if (passes > seen.passes) this.#faults.reached(role === 'prefill' ? 'computing' : 'streaming');
    }
  }

  /** Replaces engines that ended, as a fleet does. */
  #revive(): void {
    for (const role of ['prefill', 'decode'] as const) if (this.#node(role).ended) this.#replace(role);
  }

  #replace(role: 'prefill' | 'decode'): void {
    this.cluster.replace(role);
    this.#seen[role] = { loading: 0, passes: 0 };
  }

  #node(role: 'prefill' | 'decode'): PolicyNode {
    return role === 'prefill' ? this.cluster.p : this.cluster.d;
  }
}

it.each<Handover>(['pull', 'streamed'])(
  '%s: under random faults, answers are right or errors typed, and nothing stays held',
  async (handover) => {
    const happened = new Map<FaultKind, number>();
    const outcomes = { right: 0, failed: 0, left: 0 };
    const fault = fc.record({
      kind: fc.constantFrom(...KINDS),
      target: fc.constantFrom('prefill' as const, 'decode' as const),
      at: fc.record({ stage: fc.constantFrom(...STAGES), count: fc.integer({ min: 1, max: 8 }) }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fault, { maxLength: 5 }),
        fc.record({
          conversations: fc.integer({ min: 1, max: 4 }),
          spare: fc.tuple(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 30 })),
          prefixCaching: fc.boolean(),
          loadFailurePolicy: fc.constantFrom('fail' as const, 'recompute' as const),
          recomputeThreshold: fc.constantFrom(0, 8),
          order: fc.integer({ min: 0, max: 2 ** 31 }),
        }),
        async (schedule, { conversations, spare, prefixCaching, order, ...changes }) => {
          // Room for the longest conversation and the null block.
          const sizes = { blockSize: 4, maxNumBatchedTokens: 32, maxNumSeqs: 4 };
          const cluster = new PolicyCluster(
            { ...sizes, numBlocks: 15 + spare[0], prefixCaching },
            { ...sizes, numBlocks: 15 + spare[1] },
            changes,
          );
          cluster.handover = handover;
          const storm = new Storm(cluster, schedule);
          let state = order;
          await storm.run(conversations, (count) => {
            state = chain(state, count);
            return state % count;
          });
          for (const { core } of [cluster.p, cluster.d]) {
            core.inspect.checkIntegrity();
            const nothing = { usedBlocks: 0, heldRequests: 0, running: 0, waiting: 0, waitingForRemote: 0 };
            expect(core.inspect.stats()).toMatchObject(nothing);
          }
          for (const [kind, times] of storm.happened) happened.set(kind, (happened.get(kind) ?? 0) + times);
          for (const end of ['right', 'failed', 'left'] as const) outcomes[end] += storm.outcomes[end];
        },
      ),
      // A fixed seed, so that the counts below do not depend on luck.
      { numRuns: 150, seed: 20261122 },
    );
    for (const kind of KINDS) expect(happened.get(kind) ?? 0, kind).toBeGreaterThan(0);
    for (const [end, count] of Object.entries(outcomes)) expect(count, end).toBeGreaterThan(0);
  },
);
