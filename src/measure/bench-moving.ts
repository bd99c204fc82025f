/**
 * What it costs a conversation to be decoded elsewhere than the turn before: the same request, where it moved under one
 * policy or in one round, against where it stayed under another. How busy the engines were may differ too.
 */
import { z } from 'zod';
import { turnKey } from './turn-key.ts';

const turnsSchema = z.strictObject({
  turns: z.number().int().nonnegative(),
  ttft_ms: z.number().describe('Mean over requests, as all of these.'),
  bytes_p_to_d: z.number(),
  bytes_d_to_p: z.number(),
  computed_tokens: z.number(),
});

export const benchMovingSchema = z.strictObject({
  requests: z
    .number()
    .int()
    .positive()
    .describe('Later turns that moved in one place and stayed in another.'),
  stayed: turnsSchema,
  moved: turnsSchema,
  ttft_ratio: z
    .strictObject({ ratio: z.number(), low: z.number(), high: z.number() })
    .nullable()
    .describe('moved / stayed: above 1 moving is slower; 95% interval, requests drawn.'),
});
export type BenchMoving = z.infer<typeof benchMovingSchema>;

/** What of a measured request is needed here. */
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

/** `policies`: the requests of each. null: no request moved in one place and stayed in another. */
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

/** First turns, and those that one engine served alone, or that follow such a one, are neither. */
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

/** Each request counts once, however often it was served. */
function turnsOf(groups: readonly (readonly MovingRequest[])[]): z.infer<typeof turnsSchema> {
  const of = (value: (request: MovingRequest) => number | null): number =>
    mean(groups.map((requests) => mean(requests.map((request) => value(request) ?? 0))));
  return {
    turns: groups.reduce((sum, requests) => sum + requests.length, 0),
    ttft_ms: of(({ sample }) => sample.ttft_ms),
    bytes_p_to_d: of(({ bytesPToD }) => bytesPToD),
    bytes_d_to_p: of(({ bytesDToP }) => bytesDToP),
    computed_tokens: of(({ sample }) => sample.computed_tokens),
  };
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
