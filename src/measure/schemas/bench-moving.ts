/**
 * What it costs to decode a conversation's next turn on another engine: compares the same request where it moved (under one
 * policy or round) and where it stayed (under another). Engine load may differ too.
 */
import { z } from 'zod';
import { sum, sumOf } from '../../sum.ts';
import { turnKey } from '../spans/turn-key.ts';

const turnsSchema = z.strictObject({
  turns: z.number().int().nonnegative(),
  ttft_ms: z.number().describe('Mean over requests, like all fields here.'),
  bytes_p_to_d: z.number(),
  bytes_d_to_p: z.number(),
  computed_tokens: z.number(),
});

export const benchMovingSchema = z.strictObject({
  requests: z
    .number()
    .int()
    .positive()
    .describe('Later turns that moved under one policy or round and stayed under another.'),
  stayed: turnsSchema,
  moved: turnsSchema,
  ttft_ratio: z
    .strictObject({ ratio: z.number(), low: z.number(), high: z.number() })
    .nullable()
    .describe('moved / stayed: above 1 moving is slower; 95% bootstrap interval over requests.'),
});
export type BenchMoving = z.infer<typeof benchMovingSchema>;

/** The fields of a measured request that are needed here. */
interface MovingRequest {
  sample: {
    round: number;
    conversation_id: string;
    turn: number;
    ttft_ms: number;
    computed_tokens: number | null;
  };
  routed?: { prefill: string | null; decode: string };
  bytesPToD: number | null;
  bytesDToP: number | null;
}

interface Interval {
  ratio: number | null;
  low: number | null;
  high: number | null;
}

interface Both {
  stayed: MovingRequest[];
  moved: MovingRequest[];
}

/** `policies`: the requests of each policy. null if no request both moved and stayed. */
export function movingOf(
  policies: readonly (readonly MovingRequest[])[],
  ratio: (pairs: readonly (readonly [moved: number, stayed: number])[]) => Interval,
): BenchMoving | null {
  const byRequest = new Map<string, Both>();
  for (const requests of policies) for (const request of requests) sort(request, requests, byRequest);
  const both = [...byRequest.values()].filter(({ stayed, moved }) => stayed.length > 0 && moved.length > 0);
  if (both.length === 0) return null;
  const ttft = (requests: readonly MovingRequest[]) => mean(requests.map(({ sample }) => sample.ttft_ms));
  const { ratio: found, low, high } = ratio(both.map(({ stayed, moved }) => [ttft(moved), ttft(stayed)]));
  return {
    requests: both.length,
    stayed: turnsOf(both.map(({ stayed }) => stayed)),
    moved: turnsOf(both.map(({ moved }) => moved)),
    ttft_ratio: found === null || low === null || high === null ? null : { ratio: found, low, high },
  };
}

/** First turns, turns that one engine served alone, and turns that follow these count as neither. */
function sort(request: MovingRequest, all: readonly MovingRequest[], into: Map<string, Both>): void {
  const { sample, routed } = request;
  const before = all.find(
    (other) =>
      other.sample.round === sample.round &&
      other.sample.conversation_id === sample.conversation_id &&
      other.sample.turn === sample.turn - 1,
  );
  if (!routed?.prefill || !before?.routed?.prefill) return;
  const key = turnKey(sample);
  const both = into.get(key) ?? { stayed: [], moved: [] };
  both[before.routed.decode === routed.decode ? 'stayed' : 'moved'].push(request);
  into.set(key, both);
}

/** Each request counts once, regardless of how often it was served. */
function turnsOf(groups: readonly (readonly MovingRequest[])[]): z.infer<typeof turnsSchema> {
  const of = (value: (request: MovingRequest) => number | null): number =>
    mean(groups.map((requests) => mean(requests.map((request) => value(request) ?? 0))));
  return {
    turns: sumOf(groups, (requests) => requests.length),
    ttft_ms: of(({ sample }) => sample.ttft_ms),
    bytes_p_to_d: of(({ bytesPToD }) => bytesPToD),
    bytes_d_to_p: of(({ bytesDToP }) => bytesDToP),
    computed_tokens: of(({ sample }) => sample.computed_tokens),
  };
}

const mean = (values: readonly number[]): number => sum(values) / Math.max(1, values.length);
