/**
 * The thread of a watched fleet: takes orders, lets simulated time pass at the pace of the wall clock, and reports how
 * the fleet looks.
 */
import type { Clock } from '../../engine/types.ts';
import { messageOf } from '../../errors.ts';
import type { SimulationSettings } from '../settings.ts';
import { comparePolicies } from './compare.ts';
import { LiveFleet } from './live-fleet.ts';
import type { LiveNews, LiveOrder } from './protocol.ts';
import { carryOut } from './watched-fleet.ts';

/** Wall-clock time from one look to the next. */
const LOOK_MS = 100;
/** The simulated time of a look is advanced in this many pieces, so that a slow machine still takes orders. */
const PIECES = 8;
/** Weight of the newest value in the reported speed. */
const SMOOTH = 0.2;

export interface LiveHostDeps {
  /** The wall clock. */
  clock: Clock;
  nextTask: SimulationSettings['nextTask'];
  tell: (news: LiveNews) => void;
}

export class LiveHost {
  readonly #deps: LiveHostDeps;
  readonly #orders: LiveOrder[] = [];
  #fleet: LiveFleet | null = null;
  #speed = 1;
  #reached = 0;
  #runs = false;
  #compares: AbortController | null = null;

  constructor(deps: LiveHostDeps) {
    this.#deps = deps;
  }

  /** Never throws: errors are sent as news. */
  order(order: LiveOrder): void {
    if (order.kind === 'start' || order.kind === 'compare')
      this.#compares?.abort(new Error('another order came'));
    this.#orders.push(order);
    if (!this.#runs) void this.#run();
  }

  /** Runs as long as time passes. Orders are taken between two pieces of it. */
  async #run(): Promise<void> {
    this.#runs = true;
    try {
      for (;;) {
        const taken = this.#orders.length > 0;
        for (let order = this.#orders.shift(); order; order = this.#orders.shift()) await this.#take(order);
        if (!this.#fleet) break;
        if (this.#speed > 0) await this.#tick(this.#fleet);
        else if (taken) {
          // Show the effect of the orders, though no time passes.
          await this.#fleet.advance(this.#fleet.nowMs);
          this.#look();
        } else break;
      }
    } catch (error) {
      this.#fleet = null;
      this.#deps.tell({ kind: 'failed', message: messageOf(error) });
    } finally {
      this.#runs = false;
    }
    if (this.#orders.length > 0) void this.#run();
  }

  async #tick(fleet: LiveFleet): Promise<void> {
    const { clock } = this.#deps;
    const begunMs = clock.now();
    const fromMs = fleet.nowMs;
    for (let piece = 1; piece <= PIECES && this.#orders.length === 0; piece++) {
      await fleet.advance(fromMs + (this.#speed * LOOK_MS * piece) / PIECES);
      if (clock.now() - begunMs > LOOK_MS) break;
    }
    const spentMs = clock.now() - begunMs;
    const passedMs = fleet.nowMs - fromMs;
    if (passedMs > 0) {
      const reached = passedMs / Math.max(spentMs, passedMs / this.#speed);
      this.#reached += SMOOTH * (reached - this.#reached);
    }
    this.#look();
    await clock.sleep(Math.max(0, passedMs / this.#speed - spentMs));
  }

  #look(): void {
    if (this.#fleet) this.#deps.tell({ kind: 'look', look: this.#fleet.look(), speed: this.#reached });
  }

  async #take(order: LiveOrder): Promise<void> {
    const { nextTask, tell } = this.#deps;
    switch (order.kind) {
      case 'start':
        this.#fleet = new LiveFleet(order.settings, nextTask, (message) => tell({ kind: 'said', message }));
        return;
      case 'compare':
        this.#fleet = null;
        return this.#compare(order);
      case 'pace':
        this.#speed = order.speed;
        this.#reached = order.speed;
        return;
      default:
        carryOut(this.#fleet, order, tell);
    }
  }

  async #compare(order: Extract<LiveOrder, { kind: 'compare' }>): Promise<void> {
    const { nextTask, tell } = this.#deps;
    const abort = new AbortController();
    this.#compares = abort;
    const { settings, policies, seconds } = order;
    const onProgress = (done: number, share: number) =>
      tell({ kind: 'comparing', done, policies: policies.length, share });
    try {
      const deps = { nextTask, signal: abort.signal, onProgress };
      tell({ kind: 'compared', comparison: await comparePolicies(settings, policies, seconds, deps) });
    } catch (error) {
      // A later order has replaced this one: its failure does not matter.
      if (!abort.signal.aborted) throw error;
    } finally {
      this.#compares = null;
    }
  }
}
