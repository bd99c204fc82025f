/** Checks that every block is accounted for after a command's work. */
import { InternalError } from '../errors.ts';
import type { Cluster } from '../fleet/types.ts';
import type { Integrity } from '../measure/schemas/report.ts';
import { sumOf } from '../sum.ts';

/** Ends every hold and empties the caches; call when no conversation is open. */
export async function finalIntegrity(cluster: Cluster): Promise<Integrity> {
  const problem = await firstProblem(cluster);
  const leftover = sumOf(await cluster.stats(), ({ usedBlocks }) => usedBlocks);
  return { ok: problem === null && leftover === 0, leftover_blocks: leftover, problem };
}

async function firstProblem(cluster: Cluster): Promise<string | null> {
  try {
    await cluster.checkIntegrity();
    await cluster.setMode(cluster.mode);
    return null;
  } catch (error) {
    if (error instanceof InternalError) return error.message;
    throw error;
  }
}
