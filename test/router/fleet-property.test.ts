/** Whatever fleet, placement, mode, routing and fate: the router over engines without a GPU gives one engine's tokens. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PLACEMENTS } from '../../src/config/fleet-schema.ts';
import { MODES } from '../../src/config/modes.ts';
import { ROUTING_NAMES } from '../../src/config/routing.ts';
import { ConversationCache, release } from '../../src/router/conversations.ts';
import type { Candidates, RoutingPolicy } from '../../src/router/plan.ts';
import { PromptBuilder, type TurnText } from '../../src/router/prompts.ts';
import { type RequestNotice, Router } from '../../src/router/router.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { TestClock } from '../clock.ts';
import { Net, PolicyNode, settled } from '../connector/policy-cluster.ts';
import { connectorWith } from '../connector/scripted.ts';
import { chain, engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';
import { policyOf, routingOf } from './policies.ts';

/** Prompts are ids. */
const text: TurnText = {
  architecture: { eosTokenIds: [] },
  tokenizer: { encode: () => [], streamDecoder: () => ({ push: () => '', end: () => '' }) },
  chat: { encodePrompt: async () => [], nextTurnPrompt: async () => ({ promptTokenIds: [] }) },
};

const conversation = fc.record({
  userTokens: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }),
  maxTokens: fc.integer({ min: 1, max: 6 }),
});

const settings = fc.record({
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
  /** One step in so many ends an engine, which is replaced later. */
  deathRate: fc.constantFrom(0, 0, 12, 40),
  seed: fc.nat(),
});
type Settings = typeof settings extends fc.Arbitrary<infer T> ? T : never;

class Fleet {
  readonly clock = new TestClock();
  readonly net = new Net();
  readonly conversations = new ConversationCache(this.clock);
  readonly router: Router;
  nodes: PolicyNode[];
  readonly counts = { deaths: 0, served: new Set<string>(), again: 0 };
  readonly #s: Settings;
  readonly #numBlocks: number;
  #state: number;
  #lives = 1;
  /** By turn. */
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
    this.router = new Router({
      text,
      prompts: new PromptBuilder(text),
      conversations: this.conversations,
      clock: this.clock,
      routing: () => routing,
      placement: { mode: s.placement, rolesets: [] },
      settings: () => ({ mode: s.mode, handover: s.handover, throttled: false }),
      engines: () => this.nodes,
      onTurn: () => {},
      onRequest: (notice) => this.#asked(notice),
      newId: (name) => `${name}!${++ids}`,
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

  /** An engine ends; one that ended has a successor, of another id at the same place. */
  #fate(): void {
    const { deathRate } = this.#s;
    if (deathRate === 0 || this.pick(deathRate) > 0) return;
    const dead = this.nodes.findIndex(({ ended }) => ended);
    if (dead >= 0) {
      const { engineId, address, roleset } = this.nodes[dead]!;
      const name = `${engineId.split('.')[0]}.${++this.#lives}`;
      this.nodes = this.nodes.with(dead, this.#node(name, address.port, Number(roleset)));
    } else if (this.nodes.length > 1) {
      this.nodes[this.pick(this.nodes.length)]!.end();
      this.counts.deaths++;
    }
  }

  #asked({ requestId, turnId, side, engineId }: RequestNotice): void {
    const { roleset } = this.nodes.find((node) => node.engineId === engineId)!;
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
      if (!moved && !this.#moves()) this.clock.advance(12_000);
      await settled();
    }
  }

  /** Something happens, or may, without time passing. */
  #moves(): boolean {
    const told = this.alive.map((node) => node.tell()).includes(true);
    return told || this.alive.some((node) => node.core.poll()) || this.net.deliver();
  }

  async converse(id: string, userTokens: readonly number[], maxTokens: number): Promise<TurnResult[]> {
    const results: TurnResult[] = [];
    let history: readonly number[] = [];
    for (const [turn, count] of userTokens.entries()) {
      const promptTokenIds = [...history, ...tokens(count, chain(id.charCodeAt(1), turn))];
      const sampling = { maxTokens, seed: id.charCodeAt(1), ignoreEos: true };
      const asked = { conversationId: id, promptTokenIds, sampling, failover: true };
      for await (const { final } of this.router.serve(asked)) if (final) results.push(final);
      history = [...promptTokenIds, ...results.at(-1)!.outputTokenIds];
    }
    return results;
  }
}

async function alone(prompt: readonly number[], maxTokens: number, seed: number): Promise<number[]> {
  const engine = new TestEngine(engineConfig());
  engine.add(request('a', prompt, { maxTokens, seed }));
  await engine.settle();
  return engine.tokensOf('a');
}

it('every turn ends with the tokens of one engine alone, from engines of one roleset, and nothing stays held', async () => {
  const seen = { pulled: 0, moved: 0, deaths: 0, again: 0, combined: 0, fellApart: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(conversation, { minLength: 1, maxLength: 3 }),
      settings,
      async (conversations, s) => {
        const longest = conversations.map((c) => c.userTokens.reduce((sum, n) => sum + n + c.maxTokens, 0));
        const fleet = new Fleet(s, 1 + Math.ceil(Math.max(...longest) / s.blockSize) + s.spare);
        let ended = 0;
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
            expect(outputTokenIds).toEqual(await alone(promptTokenIds, maxTokens, `c${i}`.charCodeAt(1)));
            expect(prompt.localHitTokens + prompt.pulledTokens + prompt.computedTokens).toBe(
              prompt.promptTokens,
            );
            seen.pulled += prompt.pulledTokens;
          }
          const { kv } = fleet.conversations.known(`c${i}`)!;
          if (kv) release(kv);
        }
        seen.deaths += fleet.counts.deaths;
        seen.again += fleet.counts.again;
        seen.combined += [...fleet.counts.served].filter((id) => id.startsWith('both')).length;
        seen.moved += fleet.net.blocksMoved;
        seen.fellApart += fleet.alive.length < fleet.nodes.length ? 1 : 0;
        await fleet.runUntil(() => {
          for (const { holds } of fleet.alive) for (const hold of holds.list()) holds.release(hold.requestId);
          return fleet.alive.every(({ core }) => !core.hasWork());
        });
        for (const { core } of fleet.alive) {
          expect(core.inspect.stats()).toMatchObject({ usedBlocks: 0, heldRequests: 0 });
          expect(core.resetPrefixCache()).toBe(true);
        }
      },
    ),
    // One seed: what the counts below ask for does not depend on luck.
    { numRuns: 2000, seed: 20261122 },
  );
  // The cases must reach what they are for.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});
