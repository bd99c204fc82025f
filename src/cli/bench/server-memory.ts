/** What memory a server in a process of its own holds under load, and whether it grows. */
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { askLiveMemory } from './live-memory.ts';

/** Bytes, but for the first. */
export interface MemoryMark {
  /** Sent so far. */
  requests: number;
  /** Heaps of all threads and what their objects keep outside, after a garbage collection. */
  live: number;
  /** Buffers on both devices, and the slabs between the two engines. */
  gpu: number;
  shared: number;
  /** Of the whole process, with what its allocators keep for later; null where the system does not tell. */
  resident: number | null;
}

/** Compiled code and caches that fill up to their bounds are about a third of this in a minute. */
const MOST_PER_REQUEST = 512;
/** Allocators give back late. */
const MOST_RESIDENT_GROWTH = 0.15;
/**
 * What allocators keep of an engine that ended, at most: on lavapipe 15 MiB each of the first ten, and less and less of later
 * ones (290 MiB of 40, 5 of the last five).
 */
const MOST_PER_ENGINE = 24 * 2 ** 20;
/** Before so many requests code is still being compiled. */
const FEWEST_REQUESTS = 6000;

export class ServerMemory {
  /** What the server's node must be started with, beside an IPC channel. */
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

/** What grew in the second half, a sentence each. `replaced`: engines that ended in it, and others took their place. */
export function growth({ before, half, after }: MemoryMarks, replaced = 0): string[] {
  const faults: string[] = [];
  for (const kind of ['gpu', 'shared'] as const) {
    // Less is shared while an engine that was just replaced has not met the others.
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

/** Compiling is most of what such a load leaves. */
const isShort = ({ half, after }: Pick<MemoryMarks, 'half' | 'after'>): boolean =>
  after.requests - half.requests < FEWEST_REQUESTS;

/** What a load without a fault has shown. */
export const noFault = (marks: MemoryMarks): string =>
  `no fault: no wrong answer, no 500, no block in use at the end, ${isShort(marks) ? 'no more memory on the devices; too few requests to tell whether memory grows' : 'no growth of memory'}`;

export function memoryLines({ before, half, after }: MemoryMarks): string[] {
  const list = (of: (mark: MemoryMark) => number | null) =>
    [before, half, after].map((mark) => (of(mark) === null ? '?' : mib(of(mark)!))).join(', ');
  return [
    'memory of the server before, half-way and after, MiB',
    `  live, after a garbage collection: ${list(({ live }) => live)}${after.requests > half.requests ? ` (${bytesLeft(half, after).toFixed(0)} bytes a request at last)` : ''}`,
    `  of the whole process: ${list(({ resident }) => resident)}`,
    `  on the devices: ${list(({ gpu }) => gpu)}; shared: ${list(({ shared }) => shared)}`,
  ];
}

/** Live, a request. */
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
