/** How the process's malloc treats memory that is freed. */

/** Just below 32 MiB, the largest block that glibc adapts to. */
const LARGEST_BYTES = 32 * 2 ** 20 - 2 ** 16;

/**
 * Makes glibc keep freed memory for the next allocation. Otherwise it returns 128 KiB and more to the system at once, and
 * the compilers here (V8's, Mesa's, Dawn's) free and allocate megabytes all the time: each page costs a fault again, which
 * takes tens of microseconds in a virtual machine. When glibc sees a mapped block freed, it keeps twice as much from then on
 * (mallopt(3), M_MMAP_THRESHOLD). This one is never touched, and the garbage collector frees it. No effect on other systems.
 */
export function keepFreedMemory(): void {
  if (process.platform === 'linux') new ArrayBuffer(LARGEST_BYTES);
}
