/** Measures the memory of a server in its own process under load, and whether it grows. */
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { askLiveMemory } from './live-memory.ts';

/** All in bytes, except the first field. */
export interface MemoryMark {
  /** Requests sent so far. */
  requests: number;
  /** Heaps of all threads and the external memory of their objects, after a garbage collection. */
  live: number;
  /** Buffers on both devices, and slabs between the engines. */
  gpu: number;
  shared: number;
  /** Resident size of the process, including what its allocators cache; null if the system does not report it. */
  resident: number | null;
}

/** Compiled code and caches that fill up to their bounds are about a third of this in a minute. */
const MOST_PER_REQUEST = 512;
/** Slack, because allocators return memory late. */
const MOST_RESIDENT_GROWTH = 0.15;
/**
 * Most memory that allocators keep per ended engine. On lavapipe: 15 MiB each for the first ten, and decreasing for later
 * ones (290 MiB after 40, 5 MiB for the last five).
 */
const MOST_PER_ENGINE = 24 * 2 ** 20;
/** With fewer requests, code is still being compiled. */
const FEWEST_REQUESTS = 6000;

export class ServerMemory {
  /** Arguments for the server's node process, in addition to an IPC channel. */
  static readonly preload = ['--import', new URL('./live-memory-preload.js', import.meta.url).href];
  readonly #child: ChildProcess;
  readonly #metric: (kind: 'gpu' | 'shared') => Promise<number>;

  constructor(child: ChildProcess, metric: (kind: 'gpu' | 'shared') => Promise<number>) {
    this.#child = child;
    this.#metric = metric;
  }

  async mark(requests: number): Promise<MemoryMark> {
    const live = await askLiveMemory(this.#child);
    const [gpu, shared] = await Promise.all([this.#metric('gpu'), this.#metric('shared')]);
    return { requests, live, gpu, shared, resident: residentBytes(this.#child.pid!) };
  }
}

/** Before the load, after half of its requests, and after all of them. */
export interface MemoryMarks {
  before: MemoryMark;
  half: MemoryMark;
  after: MemoryMark;
}

/** What grew in the second half, one sentence each. `replaced`: engines replaced in that half. */
export function growth({ before, half, after }: MemoryMarks, replaced = 0): string[] {
  const faults: string[] = [];
  for (const kind of ['gpu', 'shared'] as const) {
    // Shared memory is lower while a replaced engine has not yet connected to the others.
    const most = Math.max(before[kind], half[kind]);
    if (after[kind] > most) faults.push(`${kind} memory went from ${most} to ${after[kind]} bytes`);
  }
  if (isShort({ half, after })) return faults;
  const each = bytesLeft(half, after);
  if (each > MOST_PER_REQUEST) faults.push(`each request left ${each.toFixed(0)} bytes behind`);
  const most = (half.resident ?? 0) * (1 + MOST_RESIDENT_GROWTH) + replaced * MOST_PER_ENGINE;
  if (half.resident !== null && after.resident! > most)
    faults.push(`the process went from ${mib(half.resident)} to ${mib(after.resident!)} MiB`);
  return faults;
}

/** Whether the load is so short that compiled code dominates growth. */
const isShort = ({ half, after }: Pick<MemoryMarks, 'half' | 'after'>): boolean =>
  after.requests - half.requests < FEWEST_REQUESTS;

/** The verdict for a load without a fault. */
export const noFault = (marks: MemoryMarks): string =>
  `no fault: no wrong answer, no 500, no block in use at the end, ${isShort(marks) ? 'no more memory on the devices; too few requests to tell whether memory grows' : 'no growth of memory'}`;

export function memoryLines({ before, half, after }: MemoryMarks): string[] {
  const list = (of: (mark: MemoryMark) => number | null) =>
    [before, half, after].map((mark) => (of(mark) === null ? '?' : mib(of(mark)!))).join(', ');
  return [
    'memory of the server before, half-way and after, MiB',
    `  live, after a garbage collection: ${list(({ live }) => live)}${after.requests > half.requests ? ` (${bytesLeft(half, after).toFixed(0)} bytes per request in the second half)` : ''}`,
    `  of the whole process: ${list(({ resident }) => resident)}`,
    `  on the devices: ${list(({ gpu }) => gpu)}; shared: ${list(({ shared }) => shared)}`,
  ];
}

/** Growth of live memory per request. */
const bytesLeft = (half: MemoryMark, after: MemoryMark): number =>
  (after.live - half.live) / (after.requests - half.requests);

const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);

function residentBytes(pid: number): number | null {
  try {
    const found = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return found ? Number(found[1]) * 1024 : null;
  } catch {
    return null;
  }
}
