/**
 * Carries out a turn's plan at its engines. When that fails, other engines serve the turn (with failover), or P computes what it
 * should have pulled.
 */
import { EngineDeadError, ExpiredError, invariant } from '../errors.ts';
import type { TurnSide } from '../measure/spans/spans.ts';
import type { EngineClient } from './engine-client.ts';
import { orWhenRefused, withFailover } from './failover.ts';
import type { TimedOutput } from './output-stream.ts';
import { planAgain, type TurnPlan } from './plan.ts';
import type { ServedTurn } from './served-turn.ts';
import { type PlannedEngines, type Turn, turnOutputs } from './turn-outputs.ts';
import type { PlannerDeps } from './turn-planner.ts';
import type { TurnSpans } from './turn-spans.ts';
import type { TurnWatch } from './turn-watch.ts';
import type { TurnsByEngine } from './turns-by-engine.ts';

/** An engine is about to get a request of a turn. */
export interface RequestNotice {
  requestId: string;
  turnId: string;
  side: TurnSide;
  engineId: string;
}

export interface AttemptDeps extends Pick<PlannerDeps, 'clock' | 'routing' | 'placement' | 'engines'> {
  onRequest: (notice: RequestNotice) => void;
  /** Creates an unguessable id from a name. */
  newId: (name: string) => string;
  spans: TurnSpans;
}

/** A planned turn. */
export interface Attempted {
  served: ServedTurn;
  turn: Omit<Turn, 'requestIds' | 'onSubmit'>;
  watch: TurnWatch;
}

export class TurnAttempts {
  readonly #deps: AttemptDeps;
  readonly #turnsAt: TurnsByEngine;
  readonly #coming: TurnsByEngine;

  /** See Router. */
  constructor(deps: AttemptDeps, turnsAt: TurnsByEngine, coming: TurnsByEngine) {
    this.#deps = deps;
    this.#turnsAt = turnsAt;
    this.#coming = coming;
  }

  /**
   * Yields what the plan's engines give. If the offered hold is gone, P computes: the hold may expire while the request waits in
   * P's queue, or have been read by a P that ended (`mayBeRead`). Any other refusal is an error. Both attempts go to the same
   * engines, which no plan sees any more if they have begun to leave meanwhile.
   */
  run(attempted: Attempted, plan: TurnPlan, mayBeRead: boolean): AsyncIterable<TimedOutput> {
    const way = this.#enginesFor(plan);
    const first = this.#attempt(attempted, way, '');
    if (!attempted.turn.remote || plan.way === 'alone') return first;
    return orWhenRefused(
      first,
      (refusal) => !attempted.served.prefilled && (mayBeRead || refusal instanceof ExpiredError),
      () => {
        attempted.watch.planned({ ...plan, load: null });
        return this.#attempt(withoutRemote(attempted), way, '-again');
      },
    );
  }

  /**
   * Yields what the plan's engines give and, after a failure, what others give. `plan`: null if its engines ended before the turn
   * began. `beforeRetry`: called before another attempt begins.
   */
  runWithFailover(
    attempted: Attempted,
    plan: TurnPlan | null,
    beforeRetry: () => void,
  ): AsyncIterable<TimedOutput> {
    const { clock, engines, placement, routing } = this.#deps;
    const alone = new Set<string>(plan?.way === 'alone' ? [plan.engineId] : []);
    const next = (): AsyncIterable<TimedOutput> | null => {
      attempted.watch.ended();
      const views = routing(null).views.of(engines(), clock.now(), this.#coming);
      const other = planAgain(attempted.turn.promptTokenIds.length, views, alone, placement);
      if (!other) return null;
      alone.add(other.engineId);
      beforeRetry();
      attempted.watch.planned(other);
      return this.#attempt(withoutRemote(attempted), this.#enginesFor(other), `-again${alone.size}`);
    };
    if (plan) return withFailover(this.#attempt(attempted, this.#enginesFor(plan), ''), next);
    const first = next();
    if (!first) throw new EngineDeadError('no engine is alive: wait until one has been restarted');
    const ended = 'no live engine takes the turn: wait until those that ended have been restarted';
    return withFailover(first, next, new EngineDeadError(ended));
  }

  async *#attempt(
    { served, turn, watch }: Attempted,
    way: PlannedEngines,
    name: string,
  ): AsyncGenerator<TimedOutput> {
    const { newId } = this.#deps;
    const { turnId, onEngines } = served.facts;
    const requestIds = { prefill: newId(`${turnId}${name || '-p'}`), decode: newId(`${turnId}${name}-d`) };
    served.beginAttempt(way);
    const ids = engineIdsOf(way);
    onEngines?.(ids);
    if (way.way === 'alone') this.#attribute(turnId, requestIds, 'prefill', way.engine);
    else
      for (const side of ['prefill', 'decode'] as const) this.#attribute(turnId, requestIds, side, way[side]);
    const leave = this.#turnsAt.enter(ids.prefill === null ? [ids.decode] : [ids.prefill, ids.decode]);
    const onSubmit = (engineId: string): void => watch.arrives(engineId);
    try {
      for await (const item of turnOutputs(way, Object.assign({ requestIds, onSubmit }, turn))) {
        served.record(item);
        watch.received(item);
        if (item.answers) yield item;
      }
    } finally {
      leave();
    }
  }

  /** From here on, spans and events of the request are attributed to the turn. */
  #attribute(
    turnId: string,
    requestIds: Turn['requestIds'],
    side: TurnSide,
    { engineId }: EngineClient,
  ): void {
    const requestId = requestIds[side];
    this.#deps.spans.attribute(requestId, { turnId, side });
    this.#deps.onRequest({ requestId, turnId, side, engineId });
  }

  #enginesFor(plan: TurnPlan): PlannedEngines {
    const engines = this.#deps.engines();
    const engine = (id: string): EngineClient => {
      const found = engines.find(({ engineId }) => engineId === id);
      invariant(found, () => `a plan names engine ${id}, which does not exist`);
      return found;
    };
    if (plan.way === 'alone') return { way: 'alone', engine: engine(plan.engineId) };
    return { way: plan.way, prefill: engine(plan.prefill), decode: engine(plan.decode) };
  }
}

const withoutRemote = ({ served, turn, watch }: Attempted): Attempted => ({
  served,
  turn: { ...turn, remote: null },
  watch,
});

const engineIdsOf = (way: PlannedEngines) =>
  way.way === 'alone'
    ? { prefill: null, decode: way.engine.engineId }
    : { prefill: way.prefill.engineId, decode: way.decode.engineId };
