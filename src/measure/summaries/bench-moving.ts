/**
 * What it costs to decode a conversation's next turn on another engine: compares the same request where it moved (under one
 * policy or round) and where it stayed (under another). Engine load may differ too.
 */
import { sum, sumOf } from '../../sum.ts';
import type { BenchSample } from '../schemas/bench-mode-schema.ts';
import type { BenchMoving, MovingTurns } from '../schemas/bench-moving-schema.ts';
import type { Ratio } from '../schemas/bench-report.ts';
import { turnKey } from '../spans/turn-key.ts';
import type { MeasuredRequest } from './bench-summary.ts';

interface Both {
  stayed: MeasuredRequest[];
  moved: MeasuredRequest[];
}

/** `policies`: the requests of each policy. null if no request both moved and stayed. */
export function movingOf(
  policies: readonly (readonly MeasuredRequest[])[],
  ratio: (
    pairs: readonly (readonly [moved: number, stayed: number])[],
  ) => Pick<Ratio, 'ratio' | 'low' | 'high'>,
): BenchMoving | null {
  const byRequest = new Map<string, Both>();
  for (const requests of policies) sort(requests, byRequest);
  const both = [...byRequest.values()].filter(({ stayed, moved }) => stayed.length > 0 && moved.length > 0);
  if (both.length === 0) return null;
  const ttft = (requests: readonly MeasuredRequest[]) => mean(requests.map(({ sample }) => sample.ttft_ms));
  const { ratio: found, low, high } = ratio(both.map(({ stayed, moved }) => [ttft(moved), ttft(stayed)]));
  return {
    requests: both.length,
    stayed: turnsOf(both.map(({ stayed }) => stayed)),
    moved: turnsOf(both.map(({ moved }) => moved)),
    ttft_ratio: found === null || low === null || high === null ? null : { ratio: found, low, high },
  };
}

/** First turns, turns that one engine served alone, and turns that follow these count as neither. */
function sort(requests: readonly MeasuredRequest[], into: Map<string, Both>): void {
  const placeOf = (sample: BenchSample): string => `${sample.round} ${turnKey(sample)}`;
  const byPlace = new Map(requests.map((request) => [placeOf(request.sample), request]));
  for (const request of requests) {
    const { sample, routed } = request;
    const before = byPlace.get(placeOf({ ...sample, turn: sample.turn - 1 }));
    if (!routed?.prefill || !before?.routed?.prefill) continue;
    const key = turnKey(sample);
    const both = into.get(key) ?? { stayed: [], moved: [] };
    both[before.routed.decode === routed.decode ? 'stayed' : 'moved'].push(request);
    into.set(key, both);
  }
}

/** Each request counts once, regardless of how often it was served. */
function turnsOf(groups: readonly (readonly MeasuredRequest[])[]): MovingTurns {
  const of = (value: (request: MeasuredRequest) => number | null): number =>
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
