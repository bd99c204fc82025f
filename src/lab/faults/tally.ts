/** Counts what the episodes of a fault run found. */
import { describeFault, FAULT_KINDS, type FaultKind } from '../../faults/schedule.ts';
import type { EpisodeResult } from './episode.ts';
import type { FaultReport, FaultTally, Violation } from './types.ts';

export class Tally {
  happened = 0;
  episodes = 0;
  violations: Violation[] = [];
  readonly #turns = { right: 0, error: 0, left: 0 };
  readonly #errors: Record<string, number> = {};
  readonly #tallies = new Map<FaultKind, FaultTally>();

  add(seed: number, { faults, turns, errors, found }: EpisodeResult): void {
    this.episodes++;
    this.happened += faults.length;
    const names = faults.map(({ fault }) => describeFault(fault));
    this.violations.push(...found.map((one) => ({ ...one, seed, picks: null, faults: names })));
    for (const outcome of ['right', 'error', 'left'] as const) this.#turns[outcome] += turns[outcome];
    for (const [code, count] of Object.entries(errors))
      this.#errors[code] = (this.#errors[code] ?? 0) + count;
    for (const { fault, turns } of faults) {
      const tally = this.#of(fault.kind);
      tally.times++;
      for (const outcome of turns) tally.turns[outcome]++;
    }
    for (const kind of new Set(faults.map(({ fault }) => fault.kind)))
      this.#of(kind).violations += found.length;
  }

  /** Records that the episode broke again with only these faults. Of other violations they are not the cause. */
  shrunk(seed: number, picks: readonly number[], { faults, found }: EpisodeResult): void {
    const names = faults.map(({ fault }) => describeFault(fault));
    const again = new Set(found.map(({ kind }) => kind));
    this.violations = this.violations.map((one) =>
      one.seed === seed && again.has(one.kind) ? { ...one, picks, faults: names } : one,
    );
  }

  report(seed: number, enginesReplaced: number): Omit<FaultReport, 'pairs'> {
    return {
      seed,
      faults: this.happened,
      episodes: this.episodes,
      turns: this.#turns,
      errors: this.#errors,
      enginesReplaced,
      tallies: FAULT_KINDS.flatMap((kind) => this.#tallies.get(kind) ?? []),
      violations: this.violations,
      ok: this.violations.length === 0,
    };
  }

  #of(kind: FaultKind): FaultTally {
    const tally = this.#tallies.get(kind) ?? {
      kind,
      times: 0,
      turns: { right: 0, error: 0, left: 0 },
      violations: 0,
    };
    this.#tallies.set(kind, tally);
    return tally;
  }
}
