/** Fits the speed of engines that work at the same time, from the time that their work took alone and in a group. */
import { mean } from 'simple-statistics';
import type { EngineRole } from '../../router/engine-client.ts';
import { CONTEXT, type ConcurrentWork, type Distance } from './contention.ts';
import type { Speeds } from './linear.ts';

export function speedsOf(concurrent: readonly ConcurrentWork[]): Speeds {
  const at = (distance: Distance) => ({
    prefill: roleSpeeds('prefill', distance, concurrent),
    decode: roleSpeeds('decode', distance, concurrent),
  });
  const all = concurrent.every(({ engines }) => engines.every(({ far }) => far.length > 0));
  return {
    ...at('near'),
    far: all ? { from: CONTEXT.near, to: CONTEXT.far, ...at('far') } : null,
  };
}

/**
 * Speeds of a role's engines, by how many of its own and of the other role were at work, relative to each engine alone.
 * These are means: on shared cores the same work takes one time now and twice that later, and a median is one or the
 * other.
 */
function roleSpeeds(role: EngineRole, distance: Distance, concurrent: readonly ConcurrentWork[]): number[][] {
  const alone = new Map<string, number>();
  const rows: number[][] = [[1]];
  for (const { engines } of concurrent) {
    if (engines.length === 1) alone.set(engines[0]!.engineId, mean(engines[0]![distance]));
    const own = engines.filter((engine) => engine.role === role);
    if (own.length === 0 || engines.length === 1) continue;
    const shares = own.map((engine) => alone.get(engine.engineId)! / mean(engine[distance]));
    const row = rows[own.length - 1] ?? [];
    rows[own.length - 1] = row;
    row[engines.length - own.length] = Math.min(1, mean(shares));
  }
  return rows;
}
