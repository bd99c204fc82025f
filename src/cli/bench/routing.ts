/**
 * `npm run bench:routing`: the time of one routing decision by policy, with 16 and with 256 engines, whose views are updated
 * by events in between. The lookup of the prompt's blocks (hashing as far as any engine has them) has its own column. No
 * engine runs. `--rounds`: routings per case.
 */
import { ROUTING_NAMES } from '../../config/routing.ts';
import { kvBytesOf } from '../../connector/policy/cost-model.ts';
import { createBlockHasher, extendHashes } from '../../engine/block-hash.ts';
import { quantile } from '../../measure/statistics.ts';
import { left, right } from '../../report/document.ts';
import {
  enginesOf,
  planTurn,
  type RouteRequest,
  type RoutingPolicy,
  type TurnPlan,
} from '../../router/plan.ts';
import { seededDraws } from '../../router/policies/definition.ts';
import { makePolicy } from '../../router/policies/registry.ts';
import { PrefixIndex } from '../../router/prefix-index.ts';
import { TurnsByEngine } from '../../router/turns-by-engine.ts';
import { EngineViews } from '../../router/views.ts';
import { plainStyle, renderTable } from '../output/table.ts';
import { benchOptions, report, runBench } from './options.ts';

/** Numbers of engines, with the microseconds that a routing may take. */
const SIZES = [
  { engines: 16, goalUs: 20 },
  { engines: 256, goalUs: 100 },
] as const;
const PROMPT = 512;
const BLOCK_SIZE = 16;
/** Number of different prompts; every engine has a part of each. */
const PROMPTS = 8;
const WARM_UP = 500;
/** Turns in flight, and how many of them are not yet prefilled. */
const UNDER_WAY = 200;
const PREFILLING = 40;

interface RoutingTime {
  policy: string;
  engines: number;
  routeUs: { p50: number; p99: number };
  lookupUs: { p50: number };
  goalUs: number;
}

await runBench(async () => {
  const options = await benchOptions('bench:routing', 'one routing by each policy', {
    rounds: 2000,
  });
  const times = ROUTING_NAMES.flatMap((name) =>
    SIZES.map(({ engines, goalUs }) => measure(name, engines, goalUs, options.rounds)),
  );
  const us = (value: number): string => value.toFixed(1);
  const rows = times.map(({ policy, engines, routeUs, lookupUs, goalUs }) => [
    policy,
    String(engines),
    us(routeUs.p50),
    us(routeUs.p99),
    String(goalUs),
    routeUs.p50 <= goalUs ? 'within' : 'MISSED',
    us(lookupUs.p50),
  ]);
  const columns = [
    left('policy'),
    ...right('engines', 'p50 µs', 'p99 µs', 'goal'),
    left(''),
    ...right(`lookup of ${PROMPT} tokens, µs`),
  ];
  report(options, renderTable(columns, rows, plainStyle), { prompt_tokens: PROMPT, times });
});

function measure(name: string, count: number, goalUs: number, rounds: number): RoutingTime {
  const hashing = { hasher: createBlockHasher('bench'), blockSize: BLOCK_SIZE };
  const views = new EngineViews(new PrefixIndex(hashing), () => 0);
  const policy = makePolicy(
    { name, parameters: {} },
    { draws: seededDraws(1), blockSize: BLOCK_SIZE, kvBytes: kvBytesOf(BLOCK_SIZE, BLOCK_SIZE * 4096) },
  );
  const engines = Array.from({ length: count }, (_, i) => ({
    engineId: `${i % 2 === 0 ? 'prefill' : 'decode'}-${i >> 1}`,
    role: i % 2 === 0 ? ('prefill' as const) : ('decode' as const),
    ended: null,
    load: { inFlight: i % 7 },
  }));
  const prompts = Array.from({ length: PROMPTS }, (_, p) =>
    Array.from({ length: PROMPT }, (_, i) => (i * 31 + p * 7) % 1000),
  );
  const chains = prompts.map((tokenIds) => {
    const hashes: string[] = [];
    extendHashes(hashes, { tokenIds, cacheSalt: null }, hashing, PROMPT / BLOCK_SIZE);
    return hashes;
  });
  const block = { parentBlockHash: null, tokenIds: [], blockSize: BLOCK_SIZE, group: 0 };
  const store = (engineId: string, atMs: number, blockHashes: readonly string[]): void =>
    views.cached({ engineId, atMs, events: [{ kind: 'stored', blockHashes, ...block }] });
  for (const [i, { engineId }] of engines.entries())
    for (const chain of chains) store(engineId, 0, chain.slice(0, 1 + ((i * 5) % chain.length)));

  const coming = new TurnsByEngine();
  const arrivals: (() => void)[] = [];
  const routed: number[] = [];
  const looked: number[] = [];
  for (let turn = 0; turn < WARM_UP + rounds; turn++) {
    const nowMs = turn * 10;
    // Events from two engines between two turns.
    for (const at of [turn, turn * 3 + 1]) {
      const { engineId } = engines[at % count]!;
      views.load(engineId, loadOf(nowMs, at));
      store(engineId, nowMs, chains[at % PROMPTS]!.slice(0, 2));
    }
    const promptTokenIds = prompts[turn % PROMPTS]!;
    const cachedTokens = views.cachedTokens(promptTokenIds, null, nowMs);
    const begun = performance.now();
    cachedTokens(engines[0]!.engineId);
    const found = performance.now();
    const request: RouteRequest = {
      number: turn,
      nowMs,
      conversationId: `conversation-${turn % 40}`,
      promptTokenIds,
      turnsBefore: turn % 3,
      mode: 'bidirectional',
      handover: 'pull',
      held: null,
      cachedTokens,
    };
    const plan = planTurn(request, views.of(engines, nowMs, coming), policy);
    const done = performance.now();
    notifyPolicy(policy, request, plan);
    arrivals.push(coming.enter(enginesOf(plan)));
    if (arrivals.length > PREFILLING) arrivals.shift()!();
    if (plan.way === 'alone') engines[turn % count]!.load.inFlight = turn % 5;
    else for (const engine of engines) if (engine.engineId === plan.decode) engine.load.inFlight = turn % 9;
    if (turn < WARM_UP) continue;
    looked.push(1000 * (found - begun));
    routed.push(1000 * (done - found));
  }
  return {
    policy: name,
    engines: count,
    routeUs: { p50: quantile(routed, 0.5), p99: quantile(routed, 0.99) },
    lookupUs: { p50: quantile(looked, 0.5) },
    goalUs,
  };
}

/** Begins a turn, prefills an earlier one and ends a still earlier one, as load for policies that track turns. */
function notifyPolicy(policy: RoutingPolicy, request: RouteRequest, plan: TurnPlan): void {
  const { number, promptTokenIds } = request;
  const [prefill, decode] = plan.way === 'alone' ? [null, plan.engineId] : [plan.prefill, plan.decode];
  const promptTokens = promptTokenIds.length;
  policy.observe?.({ kind: 'planned', number, prefill, decode, promptTokens, request });
  const prefilled = { number: number - PREFILLING, engineId: decode, ms: 30, prompt: null };
  policy.observe?.({ kind: 'prefilled', ...prefilled });
  policy.observe?.({ kind: 'ended', number: number - UNDER_WAY, outputTokens: 32 });
}

function loadOf(atMs: number, n: number) {
  return {
    atMs,
    running: n % 6,
    waiting: n % 3,
    waitingForRemote: 0,
    freeBlocks: 100 + (n % 50),
    numBlocks: 200,
    promptTokensPerSecond: 50 * (n % 11),
    generationTokensPerSecond: 20 * (n % 13),
    endedPerSecond: n % 4,
  };
}
