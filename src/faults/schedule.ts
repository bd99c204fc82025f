/**
 * Faults as data: what goes wrong, for which engine, and at which moment of the work. The same schedule can drive a
 * cluster of threads, a policy-only one or a simulated one. Each reports which stage its requests have reached, and
 * carries out the faults that are due. Knows no engines, channels or clocks.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { EngineRole } from '../router/engine-client.ts';
import { seededGenerator } from '../seeded.ts';

/** The kinds of fault and their labels in tables, in the order of where they are injected. */
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
  'scale-down': 'engine scaled down',
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

/** The stages of a turn, in order. A turn that pulls nothing skips `pulling`. */
export const STAGES = ['waiting', 'pulling', 'computing', 'handing over', 'streaming'] as const;
export type Stage = (typeof STAGES)[number];

export interface Fault {
  kind: FaultKind;
  /** The engine whose messages (those that it sends), device, clock or holds are affected. */
  target: EngineRole;
  /** Due when the count-th request reaches the stage; counts from 1. */
  at: { stage: Stage; count: number };
}

/** Random faults; the same seed always gives the same ones. `span`: the highest `count` of a fault. */
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

/** Calls `due` when a fault is due; each fault is due once. */
export class FaultClock {
  readonly #counts = new Map<Stage, number>();
  readonly #due: (fault: Fault) => void;
  #left: readonly Fault[];

  constructor(schedule: readonly Fault[], due: (fault: Fault) => void) {
    this.#left = schedule;
    this.#due = due;
  }

  /** Call when a request has reached this stage. */
  reached(stage: Stage): void {
    const count = (this.#counts.get(stage) ?? 0) + 1;
    this.#counts.set(stage, count);
    const isDue = ({ at }: Fault): boolean => at.stage === stage && at.count === count;
    const due = this.#left.filter(isDue);
    this.#left = this.#left.filter((fault) => !isDue(fault));
    for (const fault of due) this.#due(fault);
  }
}

/** One line for people to read, such as `device lost (decode), handing over 2`. */
export const describeFault = ({ kind, target, at }: Fault): string =>
  `${FAULTS[kind]} (${target}), ${at.stage} ${at.count}`;
