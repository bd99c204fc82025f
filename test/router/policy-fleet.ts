/** Fleets of engines without a GPU behind one router, on a network that only the test moves. Engines end and are replaced. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { DRAINS } from '../../src/config/autoscale.ts';
import { PLACEMENTS } from '../../src/config/fleet-schema.ts';
import { MODES } from '../../src/config/modes.ts';
import { ROUTING_NAMES } from '../../src/config/routing.ts';
import { RequestError } from '../../src/errors.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import type { Candidates, RoutingPolicy } from '../../src/router/plan.ts';
import { PromptBuilder, type TurnText } from '../../src/router/prompts.ts';
import { Router } from '../../src/router/router.ts';
import { type DrainReport, drainEngine, successorOf } from '../../src/router/scaling/drain.ts';
import { planScale } from '../../src/router/scaling/plan.ts';
import type { RequestNotice } from '../../src/router/turn-attempts.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { settled, TestClock } from '../clock.ts';
import { Net, PolicyNode } from '../connector/policy-cluster.ts';
import { connectorWith } from '../connector/scripted.ts';
import { alone, chain, tokens } from '../engine/fakes.ts';
import { policyOf, routingOf } from './policies.ts';

/** Prompts are token ids, so nothing is encoded or decoded. */
const text: TurnText = {
  architecture: { eosTokenIds: [] },
  tokenizer: { encode: () => [], streamDecoder: () => ({ push: () => '', end: () => '' }) },
  chat: { encodePrompt: async () => [], nextTurnPrompt: async () => [] },
};

export const conversation = fc.record({
  userTokens: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }),
  maxTokens: fc.integer({ min: 1, max: 6 }),
});

export const settings = fc.record({
  prefill: fc.integer({ min: 1, max: 4 }),
  decode: fc.integer({ min: 1, max: 4 }),
  combined: fc.nat(2),
  rolesets: fc.integer({ min: 1, max: 3 }),
  placement: fc.constantFrom(...PLACEMENTS),
  mode: fc.constantFrom(...MODES),
  handover: fc.constantFrom('pull' as const, 'streamed' as const),
  routing: fc.constantFrom(...ROUTING_NAMES, 'least-request:1,prefix-cache:2', 'anything'),
  blockSize: fc.constantFrom(1, 2, 4),
  spare: fc.nat(8),
  budget: fc.integer({ min: 2, max: 30 }),
  maxNumSeqs: fc.integer({ min: 1, max: 4 }),
  threshold: fc.constantFrom(0, 0, 3),
  prefixCaching: fc.tuple(fc.boolean(), fc.boolean()),
  failureRate: fc.constantFrom(0, 0, 4),
  /** One round in this many ends an engine, which is replaced later; 0: none does. */
  deathRate: fc.constantFrom(0, 0, 12, 40),
  /** One round in this many scales to random numbers of engines; 0: none does. */
  scaleRate: fc.constant<number>(0),
  drain: fc.record({ drain: fc.constantFrom(...DRAINS), holdsMs: fc.constantFrom(0, 20_000, 60_000) }),
  seed: fc.nat(),
});
export type Settings = typeof settings extends fc.Arbitrary<infer T> ? T : never;

export class PolicyFleet {
  readonly clock = new TestClock();
  readonly net = new Net();
  readonly conversations = new ConversationCache(this.clock);
  readonly router: Router;
  nodes: PolicyNode[];
  readonly counts = { deaths: 0, served: new Set<string>(), again: 0, joined: 0, refused: 0 };
  /** Reports of the engines that left. */
  readonly drains: DrainReport[] = [];
  readonly #leaving = new Set<PolicyNode>();
  readonly #s: Settings;
  readonly #numBlocks: number;
  #state: number;
  #lives = 1;
  #newId: (name: string) => string;
  /** The roleset that prefilled, by turn. */
  readonly #prefilledIn = new Map<string, string>();

  constructor(s: Settings, numBlocks: number) {
    this.#s = s;
    this.#state = s.seed;
    this.#numBlocks = numBlocks;
    const names = [
      ...Array.from({ length: s.prefill }, (_, i) => `prefill-${i}`),
      ...Array.from({ length: s.decode }, (_, i) => `decode-${i}`),
      ...Array.from({ length: s.combined }, (_, i) => `both-${i}`),
    ];
    this.nodes = names.map((name, i) => this.#node(name, 5600 + i, this.pick(s.rolesets)));
    const anything: RoutingPolicy = {
      route: (_, { prefill, decode }: Candidates) => ({
        prefill: prefill[this.pick(prefill.length)]!,
        decode: decode[this.pick(decode.length)]!,
        alone: this.pick(5) === 0,
        why: 'by chance',
      }),
    };
    const routing = routingOf(s.routing === 'anything' ? anything : policyOf(s.routing));
    let ids = 0;
    this.#newId = (name) => `${name}!${++ids}`;
    this.router = new Router({
      text,
      prompts: new PromptBuilder(text),
      conversations: this.conversations,
      clock: this.clock,
      routing: () => routing,
      placement: { mode: s.placement, rolesets: [] },
      settings: () => ({ mode: s.mode, handover: s.handover, throttled: false }),
      engines: () => this.#staying,
      onTurn: () => {},
      onRequest: (notice) => this.#asked(notice),
      newId: this.#newId,
      spans: new TurnSpans(),
    });
    this.net.failsNext = () => s.failureRate > 0 && this.pick(s.failureRate) === 0;
  }

  pick(count: number): number {
    this.#state = chain(this.#state, count);
    return this.#state % count;
  }

  #node(name: string, port: number, roleset: number): PolicyNode {
    const s = this.#s;
    const prefixCaching = s.prefixCaching[name.startsWith('prefill') ? 0 : 1];
    const { blockSize, maxNumSeqs } = s;
    const sizes = { blockSize, maxNumSeqs, maxNumBatchedTokens: s.budget, numBlocks: this.#numBlocks };
    const connector = connectorWith({
      loadFailurePolicy: 'recompute',
      bidirectional: s.mode === 'bidirectional',
      recomputeThreshold: s.threshold,
    });
    const node = new PolicyNode(name, port, { ...sizes, prefixCaching }, connector, this.clock, this.net);
    node.roleset = `${roleset}`;
    node.combined = name.startsWith('both');
    return node;
  }

  /** Scales, ends an engine, or replaces an ended one by a successor with another id on the same port. */
  #fate(): void {
    const { deathRate, scaleRate } = this.#s;
    if (scaleRate > 0 && this.pick(scaleRate) === 0) this.#scale();
    if (deathRate === 0 || this.pick(deathRate) > 0) return;
    const dead = this.nodes.findIndex((node) => node.ended && !this.#leaving.has(node));
    if (dead >= 0) {
      const { engineId, address, roleset } = this.nodes[dead]!;
      const name = `${engineId.split('.')[0]}.${++this.#lives}`;
      this.nodes = this.nodes.with(dead, this.#node(name, address.port, Number(roleset)));
    } else if (this.nodes.length > 1) {
      this.nodes[this.pick(this.nodes.length)]!.end();
      this.counts.deaths++;
    }
  }

  #scale(): void {
    const engines = this.#staying.map((node) => {
      const { engineId, role, combined, roleset, ended } = node;
      const turns = this.router.turnsAt.at(engineId);
      return { name: nameOf(node), role, combined, roleset, ended: ended !== null, turns, heldTokens: 0 };
    });
    const target = { prefill: 1 + this.pick(4), decode: 1 + this.pick(4), roleset: `${this.pick(3)}` };
    try {
      const { add, remove } = planScale(target, engines);
      for (const { name, roleset } of add) {
        const port = 5600 + this.nodes.length + ++this.#lives;
        this.nodes = [...this.nodes, this.#node(`${name}.${this.#lives}`, port, Number(roleset))];
        this.counts.joined++;
      }
      for (const name of remove) this.#leave(this.#staying.find((node) => nameOf(node) === name)!);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      this.counts.refused++;
    }
  }

  #leave(node: PolicyNode): void {
    this.#leaving.add(node);
    const remaining = async () => {
      const { running, waiting, waitingForRemote, heldRequests } = node.core.inspect.stats();
      return { requests: running + waiting + waitingForRemote, holds: heldRequests };
    };
    void drainEngine({ client: node, remaining }, this.#s.drain, {
      clock: this.clock,
      conversations: this.conversations,
      turns: this.router.turnsAt,
      successor: () => successorOf(node, this.#staying),
      newId: this.#newId,
    }).then((report) => {
      this.drains.push(report);
      expect(this.router.turnsAt.at(node.engineId)).toBe(0);
      expect(this.conversations.heldAt(node.engineId)).toEqual([]);
      if (!node.ended) expect(node.load.inFlight).toBe(0);
      this.nodes = this.nodes.filter((other) => other !== node);
      this.#leaving.delete(node);
      if (!node.ended) node.end();
    });
  }

  get #staying(): PolicyNode[] {
    return this.nodes.filter((node) => !this.#leaving.has(node));
  }

  /** Whether no engine is leaving. */
  get settled(): boolean {
    return this.#leaving.size === 0;
  }

  #asked({ requestId, turnId, side, engineId }: RequestNotice): void {
    const { roleset } = this.#staying.find((node) => node.engineId === engineId)!;
    this.counts.served.add(engineId);
    if (requestId.includes('-again')) this.counts.again++;
    else if (side === 'prefill') this.#prefilledIn.set(turnId, roleset);
    else if (this.#s.placement === 'replica') expect(roleset).toBe(this.#prefilledIn.get(turnId));
  }

  get alive(): PolicyNode[] {
    return this.nodes.filter(({ ended }) => !ended);
  }

  async runUntil(done: () => boolean): Promise<void> {
    for (let round = 0; !done(); round++) {
      if (round > 50_000) throw new Error('the fleet makes no progress');
      this.#fate();
      let moved = false;
      for (const node of this.alive) {
        if (this.pick(4) < 3 && node.core.poll()) {
          await node.step();
          moved = true;
        }
        if (this.pick(3) < 2) moved = node.tell() || moved;
      }
      while (this.pick(3) < 2 && this.net.deliver((count) => this.pick(count))) moved = true;
      await settled();
      if (!moved && !this.#moves()) this.clock.advance(this.#leaving.size > 0 ? 2000 : 12_000);
      await settled();
    }
  }

  /** Whether something happens, or can happen, without time passing. */
  #moves(): boolean {
    const told = this.alive.map((node) => node.tell()).includes(true);
    return told || this.alive.some((node) => node.core.poll()) || this.net.deliver();
  }

  async converse(id: string, userTokens: readonly number[], maxTokens: number): Promise<TurnResult[]> {
    const results: TurnResult[] = [];
    let history: readonly number[] = [];
    for (const [turn, count] of userTokens.entries()) {
      if (this.#s.scaleRate > 0 && turn > 0) await this.clock.sleep(1000 * this.pick(8));
      const promptTokenIds = [...history, ...tokens(count, chain(id.charCodeAt(1), turn))];
      const sampling = { maxTokens, seed: id.charCodeAt(1), ignoreEos: true };
      const asked = { conversationId: id, promptTokenIds, sampling, failover: true };
      for await (const { final } of this.router.serve(asked)) if (final) results.push(final);
      history = [...promptTokenIds, ...results.at(-1)!.outputTokenIds];
    }
    return results;
  }
}

const nameOf = ({ engineId }: PolicyNode): string => engineId.split('.')[0]!;

export type Talk = typeof conversation extends fc.Arbitrary<infer T> ? T : never;

/**
 * Runs all conversations concurrently to their end. Checks that they get the tokens of a single engine and that no block
 * stays in use. Returns the fleet and the number of tokens pulled.
 */
export async function serveAll(
  conversations: readonly Talk[],
  s: Settings,
): Promise<{ fleet: PolicyFleet; pulled: number }> {
  const longest = conversations.map((c) => c.userTokens.reduce((sum, n) => sum + n + c.maxTokens, 0));
  const fleet = new PolicyFleet(s, 1 + Math.ceil(Math.max(...longest) / s.blockSize) + s.spare);
  let ended = 0;
  let pulled = 0;
  const all = conversations.map(async ({ userTokens, maxTokens }, i) => {
    try {
      return await fleet.converse(`c${i}`, userTokens, maxTokens);
    } finally {
      ended++;
    }
  });
  const settledAll = Promise.allSettled(all);
  await fleet.runUntil(() => ended === all.length);
  await settledAll;
  for (const [i, turns] of (await Promise.all(all)).entries()) {
    const { userTokens, maxTokens } = conversations[i]!;
    expect(turns).toHaveLength(userTokens.length);
    for (const { promptTokenIds, outputTokenIds, prompt, finishReason } of turns) {
      expect(finishReason).toBe('length');
      const sampling = { maxTokens, seed: `c${i}`.charCodeAt(1) };
      expect(outputTokenIds).toEqual(await alone([...promptTokenIds], sampling));
      expect(prompt.localHitTokens + prompt.pulledTokens + prompt.computedTokens).toBe(prompt.promptTokens);
      pulled += prompt.pulledTokens;
    }
    const known = fleet.conversations.known(`c${i}`)!;
    await fleet.runUntil(() => fleet.conversations.moving(known) === null);
    fleet.conversations.forget(`c${i}`);
  }
  await fleet.runUntil(() => {
    for (const { holds } of fleet.alive) for (const hold of holds.list()) holds.release(hold.requestId);
    return fleet.settled && fleet.alive.every(({ core }) => !core.hasWork());
  });
  for (const { core } of fleet.alive) {
    expect(core.inspect.stats()).toMatchObject({ usedBlocks: 0, heldRequests: 0 });
    expect(core.resetPrefixCache()).toBe(true);
  }
  return { fleet, pulled };
}
