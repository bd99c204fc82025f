/** Compares routers under the same load, simulated in a separate thread so that the watched fleet keeps running. */
import { batch, type ReadonlySignal, signal } from '@preact/signals';
import type { Comparison } from '../../../src/simulate/live/compare.ts';
import { costsHere } from '../session/experiments/costs.ts';
import { comparedOf, type FleetSettings, liveOf } from './settings.ts';
import { type FleetThread, startThread } from './thread.ts';

export interface Comparing {
  done: number;
  policies: number;
  share: number;
}

export class Exercise {
  readonly comparing = signal<Comparing | null>(null);
  readonly comparison = signal<Comparison | null>(null);
  readonly failed = signal<string | null>(null);
  readonly #settings: ReadonlySignal<FleetSettings>;
  #thread: FleetThread | null = null;

  constructor(settings: ReadonlySignal<FleetSettings>) {
    this.#settings = settings;
  }

  begin(): void {
    this.stop();
    const settings = this.#settings.value;
    const policies = comparedOf(settings);
    batch(() => {
      this.comparing.value = { done: 0, policies: policies.length, share: 0 };
      this.failed.value = null;
    });
    this.#thread = startThread(
      (news) => {
        if (news.kind === 'comparing') this.comparing.value = news;
        if (news.kind !== 'compared') return;
        this.comparison.value = news.comparison;
        this.stop();
      },
      (why) => {
        this.stop();
        this.failed.value = why;
      },
    );
    const { seconds } = settings;
    this.#thread.order({ kind: 'compare', settings: liveOf(settings, costsHere.value), policies, seconds });
  }

  stop(): void {
    this.#thread?.end();
    this.#thread = null;
    this.comparing.value = null;
  }
}
