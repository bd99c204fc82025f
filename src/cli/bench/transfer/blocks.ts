/** The size of a model's KV blocks, and how many of them hold as much as a benchmark moves. */
import type { RunConfig } from '../../../config/run.ts';
import { kvGroups, kvPageBytes } from '../../../model/architecture/kv-groups.ts';
import type { Architecture } from '../../../model/types.ts';

export function blocksOf(
  architecture: Architecture,
  { blockSize, kvDtype }: Pick<RunConfig, 'blockSize' | 'kvDtype'>,
  bytes: number,
): { blockBytes: number; count: number } {
  const blockBytes = kvPageBytes(kvGroups(architecture), architecture, blockSize, kvDtype);
  return { blockBytes, count: Math.ceil(bytes / blockBytes) };
}
