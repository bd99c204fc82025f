/** How a routing policy distributed the work: load by engine, bytes by edge, moved conversations, goodput. */
import { z } from 'zod';
import { sum, sumOf } from '../../sum.ts';

const count = z.number().int().nonnegative();

const balanceSchema = z.strictObject({
  tokens: z.record(z.string(), count).describe('Tokens by engine: computed (P) or generated (D).'),
  max_over_mean: z.number().nullable().describe('1: balanced; null without any tokens.'),
  jain: z
    .number()
    .nullable()
    .describe("Jain's index: 1 balanced, 1/n all on one engine; null without any tokens."),
});

export const benchRoutingSchema = z.strictObject({
  policy: z.string(),
  prefill: balanceSchema,
  decode: balanceSchema,
  edges: z
    .array(z.strictObject({ from: z.string(), to: z.string(), bytes: count }))
    .describe('KV moved, by source and destination.'),
  moved_turns: count.describe('Turns whose conversation was decoded on another engine in the previous turn.'),
  alone_turns: count.describe('Turns that one engine served alone.'),
  goodput: z
    .strictObject({
      slo_ttft_ms: z.number().nullable(),
      slo_tpot_ms: z.number().nullable(),
      share: z.number().describe('Share of requests, failed ones included, that met both limits.'),
      requests_per_second: z.number(),
    })
    .nullable()
    .describe('null if no --slo-… was given.'),
});

export type BenchRouting = z.infer<typeof benchRoutingSchema>;
type Balance = z.infer<typeof balanceSchema>;

/** The fields of a measured request that are needed here. */
interface RoutedRequest {
  sample: {
    round: number;
    conversation_id: string;
    turn: number;
    ttft_ms: number;
    tpot_ms: number;
    computed_tokens: number | null;
    output_num_tokens: number;
  };
  routed?: { prefill: string | null; decode: string; load: string | null };
  bytesPToD: number | null;
  bytesDToP: number | null;
}

/** Engine ids by role, including engines that served nothing. */
export interface RoutingFacts {
  policy: string;
  prefill: readonly string[];
  decode: readonly string[];
  sloTtftMs: number | null;
  sloTpotMs: number | null;
  /** Requests without an answer, which miss the SLO. */
  failed: number;
  /** Rounds to exclude. */
  runtimeMs: number;
  cutRounds?: ReadonlySet<number> | undefined;
}

export function routingOf(requests: readonly RoutedRequest[], facts: RoutingFacts): BenchRouting {
  const computed = new Map(facts.prefill.map((id) => [id, 0]));
  const generated = new Map(facts.decode.map((id) => [id, 0]));
  const edges = new Map<string, BenchRouting['edges'][number]>();
  const add = (to: Map<string, number>, id: string, tokens: number): void =>
    void to.set(id, (to.get(id) ?? 0) + tokens);
  const move = (from: string | null, to: string | null, bytes: number | null): void => {
    if (from === null || to === null || !bytes) return;
    const edge = edges.get(`${from}>${to}`) ?? { from, to, bytes: 0 };
    edges.set(`${from}>${to}`, { ...edge, bytes: edge.bytes + bytes });
  };
  const lastDecode = new Map<string, string>();
  let [moved, alone] = [0, 0];
  for (const { sample, routed, bytesPToD, bytesDToP } of inTurns(requests)) {
    if (!routed) continue;
    const { prefill, decode, load } = routed;
    if (prefill === null) alone++;
    else add(computed, prefill, sample.computed_tokens ?? 0);
    add(generated, decode, sample.output_num_tokens);
    move(load, prefill, bytesDToP);
    move(prefill, decode, bytesPToD);
    const conversation = `${sample.round} ${sample.conversation_id}`;
    const before = lastDecode.get(conversation);
    if (before !== undefined && before !== decode) moved++;
    lastDecode.set(conversation, decode);
  }
  return {
    policy: facts.policy,
    prefill: balanceOf(computed),
    decode: balanceOf(generated),
    edges: [...edges.values()],
    moved_turns: moved,
    alone_turns: alone,
    goodput: goodputOf(requests, facts),
  };
}

const inTurns = (requests: readonly RoutedRequest[]): RoutedRequest[] =>
  requests.toSorted((a, b) => a.sample.round - b.sample.round || a.sample.turn - b.sample.turn);

function balanceOf(tokens: ReadonlyMap<string, number>): Balance {
  const values = [...tokens.values()];
  const total = sum(values);
  const squares = sumOf(values, (value) => value * value);
  return {
    tokens: Object.fromEntries(tokens),
    max_over_mean: total > 0 ? (Math.max(...values) * values.length) / total : null,
    jain: total > 0 ? (total * total) / (values.length * squares) : null,
  };
}

function goodputOf(
  requests: readonly RoutedRequest[],
  { sloTtftMs, sloTpotMs, failed, runtimeMs, cutRounds }: RoutingFacts,
): BenchRouting['goodput'] {
  if (sloTtftMs === null && sloTpotMs === null) return null;
  const good = requests.filter(
    ({ sample }) =>
      (sloTtftMs === null || sample.ttft_ms <= sloTtftMs) &&
      (sloTpotMs === null || sample.tpot_ms <= sloTpotMs),
  );
  const timed = good.filter(({ sample }) => !cutRounds?.has(sample.round));
  const total = requests.length + failed;
  return {
    slo_ttft_ms: sloTtftMs,
    slo_tpot_ms: sloTpotMs,
    share: total > 0 ? good.length / total : 0,
    requests_per_second: runtimeMs > 0 ? (1000 * timed.length) / runtimeMs : 0,
  };
}
