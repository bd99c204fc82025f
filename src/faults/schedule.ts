/**
 * Faults as data: what goes wrong, for whom, and at which moment of the work. One schedule drives a cluster of threads, a
 * policy-only one or a simulated one: each says which stage its requests reach, and does what a due fault names. Knows no
 * engine, channel or clock.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { EngineRole } from '../router/engine-client.ts';
import { seededGenerator } from '../seeded.ts';

/** By the seam where it is put in; in words for tables. */
export const FAULTS = {
  lose: 'message lost',
  delay: 'messages late',
  repeat: 'message twice',
  reorder: 'message overtaken',
  truncate: 'message cut short',
  'lose-notice': 'notification lost',
  flip: 'bit flipped in the slab',
  'lose-device': 'device lost',
  'out-of-memory': 'device out of memory',
  end: 'thread ended',
  replace: 'engine replaced',
  hang: 'engine hangs',
  slow: 'engine slow',
  jump: 'clock jumps',
  stall: 'clock stalls',
  expire: 'holds expire',
  leave: 'client leaves',
  fill: 'pools full of holds',
} as const;
export type FaultKind = keyof typeof FAULTS;
export const FAULT_KINDS = Object.keys(FAULTS) as readonly FaultKind[];

/** Of a turn, in this order; a turn that pulls nothing skips `pulling`. */
export const STAGES = ['waiting', 'pulling', 'computing', 'handing over', 'streaming'] as const;
export type Stage = (typeof STAGES)[number];

export interface Fault {
  kind: FaultKind;
  /** Whose messages (those it sends), device, clock or holds. */
  target: EngineRole;
  /** When the count-th request reaches the stage, from 1 on. */
  at: { stage: Stage; count: number };
}

/** The same for the same seed, always. `span`: the latest count of a stage that a fault waits for. */
export function makeSchedule(
  seed: number,
  { kinds, faults, span }: { kinds: readonly FaultKind[]; faults: number; span: number },
): Fault[] {
  const random = seededGenerator(seed);
  const pick = <T>(from: readonly T[]): T => from[uniformInt(random, 0, from.length - 1)]!;
  return Array.from({ length: faults }, () => ({
    kind: pick(kinds),
    target: pick(['prefill', 'decode'] as const),
    at: { stage: pick(STAGES), count: uniformInt(random, 1, span) },
  }));
}

/** Tells whoever does the harm when a fault is due; each is due once. */
export class FaultClock {
  readonly #counts = new Map<Stage, number>();
  readonly #due: (fault: Fault) => void;
  #left: readonly Fault[];

  constructor(schedule: readonly Fault[], due: (fault: Fault) => void) {
    this.#left = schedule;
    this.#due = due;
  }

  /** A request has come to this stage. */
  reached(stage: Stage): void {
    const count = (this.#counts.get(stage) ?? 0) + 1;
    this.#counts.set(stage, count);
    const isDue = ({ at }: Fault): boolean => at.stage === stage && at.count === count;
    const due = this.#left.filter(isDue);
    this.#left = this.#left.filter((fault) => !isDue(fault));
    for (const fault of due) this.#due(fault);
  }
}

/** One line for people: `device lost (decode), at the 2nd handing over`. */
export const describeFault = ({ kind, target, at }: Fault): string =>
  `${FAULTS[kind]} (${target}), ${at.stage} ${at.count}`;
