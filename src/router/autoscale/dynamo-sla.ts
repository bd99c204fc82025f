/**
 * Dynamo's SLA planner (its docs), with both of its rules. Every 180 s, throughput sets a floor: from the requests
 * and lengths of the last interval, corrected by the ratio of measured to profiled latencies. Every 5 s, load moves
 * each role by at most one engine: up if every engine is above its SLO, down if every engine is below 0.8 of it. The
 * next interval's lengths are assumed to equal the last one's (Dynamo's `constant` predictor; arima, kalman and
 * prophet are not implemented).
 */
import { z } from 'zod';
import { sumOf } from '../../sum.ts';
import type { EngineRole } from '../engine-client.ts';
import type { Autoscaler, Bounds, FleetLoad, RoleLoad, ScaleDecision, ServedLoad } from './types.ts';

const positive = () => z.number().positive();
/** Measurements of one engine, taken beforehand, in any order. */
const profile = <Point extends z.ZodObject>(point: Point, example: object) => {
  const error = `wanted measurements of one engine in --autoscale-config, such as ${JSON.stringify([example])}`;
  return z.array(point, { error }).min(1, { error });
};
export const dynamoSlaSchema = z.strictObject({
  ttftMs: positive().default(500),
  itlMs: positive().default(50),
  /** Upper limit for P and D together; lower limit for each role. */
  maxEngines: z.number().int().min(2).default(8),
  minEndpoint: z.number().int().positive().default(1),
  throughputIntervalSeconds: positive().default(180),
  loadIntervalSeconds: positive().default(5),
  /** Scales down if every engine is below this share of its SLO. */
  downShare: z.number().min(0).max(1).default(0.8),
  prefillProfile: profile(
    z.strictObject({ inputTokens: positive(), ttftMs: positive(), tokensPerSecond: positive() }),
    { inputTokens: 512, ttftMs: 80, tokensPerSecond: 6400 },
  ),
  decodeProfile: profile(
    z.strictObject({ contextTokens: positive(), itlMs: positive(), tokensPerSecond: positive() }),
    { contextTokens: 512, itlMs: 8, tokensPerSecond: 900 },
  ),
});
type Parameters = z.output<typeof dynamoSlaSchema>;
type Engines = Readonly<Record<EngineRole, number>>;

/** Number of engines that the throughput of one interval needs. */
export function enginesForThroughput(served: ServedLoad, intervalSeconds: number, p: Parameters): Engines {
  const { requests, meanInputTokens: isl, meanOutputTokens: osl, ttftMs, itlMs } = served;
  const prefill = nearest(p.prefillProfile, ({ inputTokens }) => inputTokens, isl);
  const correction = ttftMs / prefill.ttftMs;
  const promptRate = ((requests * isl) / intervalSeconds) * Math.min(1, correction);

  const context = isl + osl / 2;
  const point = nearest(p.decodeProfile, ({ contextTokens }) => contextTokens, context);
  const atContext = p.decodeProfile.filter(({ contextTokens }) => contextTokens === point.contextTokens);
  const expected = fastest(atContext, p.itlMs);
  const target = p.itlMs / (itlMs / expected.itlMs);
  const outputRate = (requests * osl) / intervalSeconds;
  return {
    prefill: Math.max(p.minEndpoint, Math.ceil(promptRate / prefill.tokensPerSecond)),
    decode: Math.max(p.minEndpoint, Math.ceil(outputRate / fastest(atContext, target).tokensPerSecond)),
  };
}

/** Cuts a total above maxEngines in proportion; D gets what P leaves. */
export function withinBudget({ prefill, decode }: Engines, { maxEngines, minEndpoint }: Parameters): Engines {
  if (prefill + decode <= maxEngines) return { prefill, decode };
  const share = Math.floor((prefill * maxEngines) / (prefill + decode));
  const p = Math.min(maxEngines - minEndpoint, Math.max(minEndpoint, share));
  return { prefill: p, decode: maxEngines - p };
}

export class DynamoSla implements Autoscaler {
  readonly #p: Parameters;
  #floor: Engines;
  readonly #sinceFloor: ServedLoad[] = [];
  #floorMs: number | null = null;
  #loadMs = Number.NEGATIVE_INFINITY;
  readonly #bounds: Readonly<Record<EngineRole, Bounds>> | null;
  /** The last decision, until the change that followed is over. */
  #desired: Engines | null = null;

  /** `bounds`: limits of each role, which decisions never exceed; null: none. */
  constructor(parameters: Parameters, bounds: Readonly<Record<EngineRole, Bounds>> | null = null) {
    this.#p = parameters;
    this.#bounds = bounds;
    this.#floor = { prefill: parameters.minEndpoint, decode: parameters.minEndpoint };
  }

  decide(load: FleetLoad): Record<EngineRole, ScaleDecision> {
    const { nowMs, served, prefill, decode, changing } = load;
    if (served) this.#sinceFloor.push(served);
    this.#floorMs ??= nowMs;
    const now = { prefill: prefill.engines, decode: decode.engines };
    // Somebody else may have started the change. What it leaves behind is the start of the next decision.
    if (changing) return decisions(this.#desired ?? now, () => 'a change is in progress');
    this.#desired = null;
    const floorIsNew = this.#updateFloor(nowMs);
    if (!floorIsNew && nowMs - this.#loadMs < 1000 * this.#p.loadIntervalSeconds) {
      return decisions(now, () => 'between two checks');
    }
    this.#loadMs = nowMs;
    const { ttftMs, itlMs } = this.#p;
    const moved = { prefill: this.#byLoad(prefill, ttftMs), decode: this.#byLoad(decode, itlMs) };
    const proposed = {
      prefill: Math.max(this.#floor.prefill, moved.prefill.want),
      decode: Math.max(this.#floor.decode, moved.decode.want),
    };
    const desired = this.#bounded(withinBudget(proposed, this.#p));
    if (desired.prefill !== now.prefill || desired.decode !== now.decode) this.#desired = desired;
    const cut = desired.prefill + desired.decode < proposed.prefill + proposed.decode;
    return decisions(desired, (role) =>
      [
        moved[role].why,
        ...(this.#floor[role] > moved[role].want ? [`throughput needs ${this.#floor[role]}`] : []),
        ...(cut ? [`at most ${this.#p.maxEngines} in total`] : []),
      ].join('; '),
    );
  }

  #bounded({ prefill, decode }: Engines): Engines {
    const inside = (role: EngineRole, want: number): number => {
      const { min, max } = this.#bounds?.[role] ?? { min: want, max: want };
      return Math.min(max, Math.max(min, want));
    };
    return { prefill: inside('prefill', prefill), decode: inside('decode', decode) };
  }

  #updateFloor(nowMs: number): boolean {
    const seconds = (nowMs - this.#floorMs!) / 1000;
    if (seconds < this.#p.throughputIntervalSeconds) return false;
    this.#floorMs = nowMs;
    const all = this.#sinceFloor.splice(0);
    const { minEndpoint } = this.#p;
    this.#floor =
      all.length === 0
        ? { prefill: minEndpoint, decode: minEndpoint }
        : enginesForThroughput(together(all), seconds, this.#p);
    return true;
  }

  /** Changes by at most one engine. Both comparisons are strict. */
  #byLoad({ engines, values }: RoleLoad, slo: number): ScaleDecision {
    if (values.length === 0) return { want: engines, why: 'no estimates' };
    if (values.every((value) => value > slo))
      return { want: engines + 1, why: `every engine above ${slo} ms` };
    const low = slo * this.#p.downShare;
    if (values.every((value) => value < low) && engines > this.#p.minEndpoint) {
      return { want: engines - 1, why: `every engine below ${Number(low.toPrecision(4))} ms` };
    }
    return { want: engines, why: `within ${slo} ms` };
  }
}

const decisions = (
  desired: Engines,
  why: (role: EngineRole) => string,
): Record<EngineRole, ScaleDecision> => ({
  prefill: { want: desired.prefill, why: why('prefill') },
  decode: { want: desired.decode, why: why('decode') },
});

/** Combines intervals, weighting means by requests. */
function together(all: readonly ServedLoad[]): ServedLoad {
  const mean = (value: (served: ServedLoad) => number, some = all) =>
    sumOf(some, (served) => served.requests * value(served)) /
    Math.max(
      1,
      sumOf(some, ({ requests }) => requests),
    );
  // Answers of one token have no time between tokens.
  const longer = all.filter(({ itlMs }) => itlMs > 0);
  return {
    requests: sumOf(all, ({ requests }) => requests),
    meanInputTokens: mean((served) => served.meanInputTokens),
    meanOutputTokens: mean((served) => served.meanOutputTokens),
    ttftMs: mean((served) => served.ttftMs),
    itlMs: mean((served) => served.itlMs, longer),
  };
}

/** The point with the least value that is at least `value`, otherwise the one with the greatest. */
function nearest<T>(points: readonly T[], of: (point: T) => number, value: number): T {
  const rising = points.toSorted((a, b) => of(a) - of(b));
  return rising.find((point) => of(point) >= value) ?? rising.at(-1)!;
}

/** The highest throughput within the latency; if no point is, the lowest latency. */
function fastest<T extends { itlMs: number; tokensPerSecond: number }>(
  points: readonly T[],
  itlMs: number,
): T {
  const fits = points.filter((point) => point.itlMs <= itlMs);
  if (fits.length === 0) return points.reduce((a, b) => (b.itlMs < a.itlMs ? b : a));
  return fits.reduce((a, b) => (b.tokensPerSecond > a.tokensPerSecond ? b : a));
}
