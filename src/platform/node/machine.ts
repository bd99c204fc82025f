/** The machine that this process runs on. */
import { readFileSync } from 'node:fs';
import os from 'node:os';

/** As written in reports. */
export function thisMachine() {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() || os.arch(),
    cores: Math.max(1, os.availableParallelism()),
    memory_bytes: os.totalmem(),
    os: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.version,
  };
}

/** Bytes that programs can still allocate without swapping, limited to what remains of a container's limit. */
export function freeMemory(): number {
  const limit = process.constrainedMemory() ?? 0;
  if (limit <= 0) return os.freemem();
  return Math.min(os.freemem(), Math.max(0, limit - process.memoryUsage.rss()));
}

/** Memory mappings that the kernel still allows this process; null if unknown, as on systems other than Linux. */
export function freeMappings(): number | null {
  try {
    const most = Number(readFileSync('/proc/sys/vm/max_map_count', 'utf8'));
    return most - readFileSync('/proc/self/maps', 'utf8').split('\n').length;
  } catch {
    return null;
  }
}

/** One-minute load average; 0 if the system has none. */
export const loadAverage = (): number => os.loadavg()[0]!;
