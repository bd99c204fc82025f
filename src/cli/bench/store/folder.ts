/** A store's folder: blocks read and checked, compared with plain sequential reads of the same files in the same rounds. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median } from '../../../measure/statistics.ts';
import { systemClock } from '../../../platform/clock.ts';
import { directoryFolder } from '../../../platform/node/store-folder.ts';
import { FolderTier } from '../../../store/folder-tier.ts';
import { spread } from '../options.ts';

const BLOCKS = 320;
const BLOCK_BYTES = 49_152;
const GOAL = 0.7;

export interface FolderReads {
  blocks: number;
  blockBytes: number;
  tierMs: number[];
  plainMs: number[];
}

/** Files were just written, so both read from the page cache. */
export async function measureFolder(rounds: number): Promise<FolderReads> {
  const directory = await mkdtemp(path.join(tmpdir(), 'kvferry-bench-store-'));
  try {
    const folder = directoryFolder(path.join(directory, 'kv'));
    const tier = await FolderTier.open({
      ...{ folder, namespace: 'a'.repeat(64), blockBytes: BLOCK_BYTES, quotaBytes: 2 ** 30, ttlMs: null },
      ...{ clock: systemClock, onTrouble: (message) => process.stderr.write(`${message}\n`) },
    });
    const hashes = Array.from({ length: BLOCKS }, (_, i) => i.toString(16).padStart(64, '0'));
    for (const [i, hash] of hashes.entries()) {
      if (tier.isFull) await tier.flush();
      tier.write(hash, [new Uint8Array(BLOCK_BYTES).fill(i)]);
    }
    await tier.flush();
    const files = (await folder.list()).filter(({ name }) => name.endsWith('.kv'));
    const into = hashes.map(() => new Uint8Array(BLOCK_BYTES));
    const reads = {
      blocks: BLOCKS,
      blockBytes: BLOCK_BYTES,
      tierMs: [] as number[],
      plainMs: [] as number[],
    };
    for (let round = 0; round <= rounds; round++) {
      const begun = performance.now();
      // In the way that a store loads them.
      const came = await Promise.all(hashes.map((hash, i) => tier.read(hash, [into[i]!])));
      const between = performance.now();
      for (const { name } of files) readFileSync(path.join(directory, 'kv', name));
      if (came.includes(false)) throw new Error('a written block could not be read');
      if (round === 0) continue;
      reads.tierMs.push(between - begun);
      reads.plainMs.push(performance.now() - between);
    }
    return reads;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

export function folderLines({ blocks, blockBytes, tierMs, plainMs }: FolderReads): string[] {
  const share = median(plainMs) / median(tierMs);
  const mbps = (ms: readonly number[]): string =>
    `${((blocks * blockBytes) / median(ms) / 1000).toFixed(0)} MB/s`;
  return [
    `Folder, ${blocks} blocks of ${blockBytes} bytes, in the page cache: ms, median [least, most]`,
    `  read and checked     ${spread(tierMs)}  ${mbps(tierMs)}`,
    `  plain, one by one    ${spread(plainMs)}  ${mbps(plainMs)}`,
    `  share of plain reads ${Math.round(100 * share)}%, goal 70%: ${share >= GOAL ? 'within' : 'MISSED'}`,
  ];
}
