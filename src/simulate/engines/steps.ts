/** Takes an engine's steps on a virtual clock: one by one, or many decode steps together while only tokens change. */
import type { EngineCore } from '../../engine/engine-core.ts';
import type { SampledToken, ScheduledBatch } from '../../engine/types.ts';
import type { VirtualClock } from '../clock.ts';
import {
  contextOf,
  type SimulationCosts,
  type StepPlace,
  type StepShape,
  shapeOf,
  workOf,
} from '../costs/types.ts';
import type { Machine } from '../machine.ts';
import { DecodeSteps } from './decode-steps.ts';
import type { EngineTrace } from './engine-trace.ts';
import type { EngineMeter } from './meter.ts';
import type { Outbox } from './outbox.ts';
import type { PoolShare } from './pool-share.ts';

/** Fewer steps are not worth computing together. */
const LEAST_RUN = 2;

export interface StepDeps {
  clock: VirtualClock;
  costs: SimulationCosts;
  /** The machine that all engines share; null: each has its own. */
  machine: Machine | null;
  /** Factor by which a step's time differs from the modelled one. */
  varies: (shape: StepShape) => number;
  /** Whether decode steps in which only tokens change are computed together. */
  runs: boolean;
  /**
   * Rank of step ends among the events of a moment, for steps that took time. They come first, so that the order is the
   * same however steps are computed.
   */
  rank: number;
}

export interface SteppedEngine {
  core: EngineCore;
  meter: EngineMeter;
  outbox: Outbox;
  place: Omit<StepPlace, 'poolUsed'>;
  poolShare: PoolShare;
  /** Reports each step; null: steps are not reported. */
  trace: EngineTrace | null;
  /** When the engine next has something else to do, ms; null: never. */
  dueMs: () => number | null;
  /** Called when steps have ended: queues the engine for attention. */
  touch: () => void;
}

export class EngineSteps {
  readonly #deps: StepDeps;
  readonly #engine: SteppedEngine;
  #stepping: { cancel(): void } | null = null;
  readonly #place: StepPlace;
  readonly #run: DecodeSteps;
  /** Whether steps are computed together, beginning with the one under way. */
  #running = false;
  /** The step under way; valid while there is one. */
  #step = { startMs: 0, ms: 0 };

  constructor(engine: SteppedEngine, deps: StepDeps) {
    this.#engine = engine;
    this.#deps = deps;
    this.#place = { ...engine.place, poolUsed: 0 };
    // Only full groups have such steps.
    this.#run = new DecodeSteps((shape) =>
      this.#stepMs(shape, engine.poolShare.ofContext(shape.decodeContext)),
    );
  }

  get underWay(): boolean {
    return this.#stepping !== null;
  }

  cancel(): void {
    this.#stepping?.cancel();
  }

  /**
   * Milliseconds until its device is done with the current piece of a step, as on a machine of its own; 0 if there is
   * none.
   */
  get deviceBusyMs(): number {
    const { pieceMs } = this.#deps.costs;
    this.catchUp();
    if (!this.#stepping || pieceMs === null) return 0;
    const { startMs, ms } = this.#step;
    const ranMs = this.#deps.clock.now() - startMs;
    const pieceEndMs = (Math.floor(ranMs / pieceMs) + 1) * pieceMs;
    return Math.max(0, Math.min(pieceEndMs, ms) - ranMs);
  }

  /** Takes the decode steps that are over by now; the one under way becomes a single step. */
  catchUp(): void {
    if (!this.#running) return;
    const run = this.#run;
    const { core, meter } = this.#engine;
    this.#running = false;
    this.#stepping?.cancel();
    this.#stepping = null;
    const { clock, rank } = this.#deps;
    const endMs = this.#take(run, run.stepsUntil(clock.now(), rank < clock.rank));
    const batch = core.beginStep();
    const shape = shapeOf(batch);
    meter.stepBegins(shape, endMs);
    this.#step = { startMs: endMs, ms: run.stepMs(shape) };
    this.#runStep(batch, shape);
  }

  begin(): void {
    const { clock, machine } = this.#deps;
    const { core, meter, poolShare } = this.#engine;
    const startMs = clock.now();
    if (this.#beginRun(startMs)) return;
    const batch = core.beginStep();
    if (batch.requests.length === 0) {
      this.#end(batch, null);
      return;
    }
    const shape = shapeOf(batch);
    const ms = this.#stepMs(shape, poolShare.ofBatch(batch)) * this.#deps.varies(shape);
    this.#step = { startMs, ms };
    meter.stepBegins(shape, startMs);
    if (!machine) {
      this.#runStep(batch, shape);
      return;
    }
    const computing = { work: workOf(shape), context: contextOf(shape) };
    this.#stepping = machine.step(ms, () => this.#stepDone(batch, shape), computing);
  }

  #stepMs(shape: StepShape, poolUsed: number): number {
    // One object for all steps: there are very many.
    this.#place.poolUsed = poolUsed;
    return this.#deps.costs.stepMs(shape, this.#place);
  }

  #runStep(batch: ScheduledBatch, shape: StepShape): void {
    const { startMs, ms } = this.#step;
    this.#until(startMs, startMs + ms, () => this.#stepDone(batch, shape));
  }

  /** What takes no time waits its turn among the other events of the moment. */
  #until(startMs: number, endMs: number, whenDone: () => void): void {
    const { clock, rank } = this.#deps;
    const timer = endMs > startMs ? clock.at(endMs, whenDone, rank) : clock.at(endMs, whenDone);
    this.#stepping = { cancel: () => clock.cancel(timer) };
  }

  #stepDone(batch: ScheduledBatch, shape: StepShape): void {
    this.#stepping = null;
    this.#end(batch, shape);
    this.#engine.touch();
  }

  /** Returns false if the next step must be taken alone. */
  #beginRun(startMs: number): boolean {
    const { core, meter, dueMs, touch } = this.#engine;
    const most = this.#deps.runs ? core.decodeSteps : 0;
    if (most < LEAST_RUN) return false;
    const run = this.#run;
    run.plan(startMs, decodeShape(core), most, dueMs());
    if (run.count < LEAST_RUN) return false;
    this.#running = true;
    meter.runBegins();
    this.#until(startMs, run.endMs, () => {
      this.#running = false;
      this.#stepping = null;
      this.#take(run, run.count);
      meter.stepEnds();
      touch();
    });
    return true;
  }

  /** Takes the first `count` steps; returns when the last of them ended, ms. */
  #take(run: DecodeSteps, count: number): number {
    if (count === 0) return run.startMs;
    const { core, meter, outbox } = this.#engine;
    const { requests, requestIds } = core.decodeShape();
    let taken = 0;
    core.decode(count, (steps) => {
      meter.stepsTaken(steps, requests, taken === 0 ? run.startMs : run.endOf(taken - 1));
      if (outbox.listened)
        for (let i = taken; i < taken + steps; i++) outbox.reportDecoded(requests, run.endOf(i));
      taken += steps;
    });
    for (const requestId of requestIds) outbox.defer(requestId, count);
    return run.endOf(count - 1);
  }

  /** `shape`: null if nothing ran. */
  #end(batch: ScheduledBatch, shape: StepShape | null): void {
    const { core, meter, outbox, trace } = this.#engine;
    if (shape) trace?.ran(batch, this.#step.startMs, this.#deps.clock.now());
    const outputs = core.endStep(batch, sampled(batch));
    if (shape) meter.stepEnds();
    if (trace) for (const { requestId, finish } of outputs) if (finish) trace.closed(requestId);
    outbox.deliver(outputs);
  }
}

/** Placeholder ids: what is generated is forced. */
function sampled({ requests }: ScheduledBatch): SampledToken[] {
  const tokens: SampledToken[] = [];
  for (const { requestId, sample } of requests)
    if (sample) tokens.push({ requestId, tokenId: 0, logitsDigest: '', logits: null });
  return tokens;
}

function decodeShape(core: EngineCore): StepShape {
  const { requests, context } = core.decodeShape();
  return { decodes: requests, decodeContext: context, prefills: 0, prefillTokens: 0, prefillContext: 0 };
}
