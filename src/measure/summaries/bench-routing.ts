/** How a routing policy distributed the work: load by engine, bytes by edge, moved conversations, goodput. */
import { sum, sumOf } from '../../sum.ts';
import type { Balance, BenchRouting } from '../schemas/bench-routing-schema.ts';
import type { MeasuredRequest } from './bench-summary.ts';

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

export function routingOf(requests: readonly MeasuredRequest[], facts: RoutingFacts): BenchRouting {
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

const inTurns = (requests: readonly MeasuredRequest[]): MeasuredRequest[] =>
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
  requests: readonly MeasuredRequest[],
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
