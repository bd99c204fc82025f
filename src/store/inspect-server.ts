/** Lists, verifies and clears the blocks that stores left on a server, for the CLI. Needs no engine. */
import { ConfigError, messageOf, TransferError } from '../errors.ts';
import type { ListedServer } from '../platform/types.ts';
import { inTime } from '../transport/deadlines.ts';
import { type BlockName, decodeBlock, HEAD_BYTES } from './block-file.ts';
import { BLOCK_KEYS, blockAt } from './server-keys.ts';

/** The blocks of one model on one adapter. */
export interface ServerNamespace {
  namespace: string;
  blocks: number;
  bytes: number;
}

export interface ServerInspection {
  server: ListedServer;
  /** See Clock.sleep. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Aborts the operation, which then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Called after every few blocks. */
  onProgress?: (blocks: number) => void;
}

/** A server that does not answer for this long is given up. */
const PATIENCE_MS = 10_000;
/** Larger values are not blocks, and are not read. */
const MOST_BLOCK_BYTES = 2 ** 26;
/** Number of concurrent reads. */
const READERS = 8;

interface Found {
  key: string;
  block: BlockName;
  bytes: number | null;
}

/** Sorted by size, largest first. Rejects if the server does not answer or refuses, as do the functions below. */
export async function listServer(inspection: ServerInspection): Promise<ServerNamespace[]> {
  const namespaces = new Map<string, ServerNamespace>();
  for await (const found of blocksOf(inspection)) {
    inspection.signal?.throwIfAborted();
    for (const { block, bytes } of found) {
      const { namespace } = block;
      const known = namespaces.get(namespace) ?? { namespace, blocks: 0, bytes: 0 };
      const sum = known.bytes + (bytes ?? 0);
      namespaces.set(namespace, { namespace, blocks: known.blocks + 1, bytes: sum });
    }
  }
  return [...namespaces.values()].toSorted((a, b) => b.bytes - a.bytes);
}

/** Reads every block and checks it as a loading store does. Removes nothing. */
export async function verifyServer(
  inspection: ServerInspection,
): Promise<{ blocks: number; broken: { key: string; why: string }[] }> {
  let blocks = 0;
  const broken: { key: string; why: string }[] = [];
  for await (const found of blocksOf(inspection)) {
    for (let i = 0; i < found.length; i += READERS) {
      inspection.signal?.throwIfAborted();
      const some = found.slice(i, i + READERS);
      for (const [j, why] of (await Promise.all(some.map((one) => wrongWith(inspection, one)))).entries())
        if (why !== null) broken.push({ key: some[j]!.key, why });
      blocks += some.length;
      inspection.onProgress?.(blocks);
    }
  }
  return { blocks, broken };
}

/** Removes every block of every model. Other keys on the server are kept. */
export async function clearServer(inspection: ServerInspection): Promise<{ blocks: number; bytes: number }> {
  let blocks = 0;
  let total = 0;
  for await (const found of blocksOf(inspection)) {
    inspection.signal?.throwIfAborted();
    await answered(inspection, inspection.server.remove(found.map(({ key }) => key)));
    for (const { bytes } of found) total += bytes ?? 0;
    blocks += found.length;
    inspection.onProgress?.(blocks);
  }
  return { blocks, bytes: total };
}

async function wrongWith(inspection: ServerInspection, { key, block, bytes }: Found): Promise<string | null> {
  if (bytes !== null && bytes > MOST_BLOCK_BYTES) return `it has ${bytes} bytes, more than any block`;
  const value = await answered(inspection, inspection.server.get(key, MOST_BLOCK_BYTES));
  // It has expired meanwhile, or somebody removed it.
  if (!value) return null;
  if ('wrong' in value) return value.wrong;
  const kv = decodeBlock(value, block, value.length - HEAD_BYTES);
  return 'wrong' in kv ? kv.wrong : null;
}

/** The blocks on the server, each once. */
async function* blocksOf(inspection: ServerInspection): AsyncIterable<Found[]> {
  const listed = new Set<string>();
  const scan = inspection.server.scan(BLOCK_KEYS)[Symbol.asyncIterator]();
  for (;;) {
    const { done, value } = await answered(inspection, scan.next());
    if (done) return;
    const found: Found[] = [];
    for (const { key, bytes } of value) {
      const block = listed.has(key) ? null : blockAt(key);
      if (!block) continue;
      listed.add(key);
      found.push({ key, block, bytes });
    }
    yield found;
  }
}

async function answered<T>(inspection: ServerInspection, answer: Promise<T>): Promise<T> {
  try {
    return await inTime(answer, PATIENCE_MS, inspection, () => {
      throw new TransferError(`no answer within ${PATIENCE_MS / 1000} s`);
    });
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new TransferError(
      `${inspection.server.location} is unavailable (${messageOf(error)}): wanted a Redis or Valkey server; start it, or name another`,
    );
  }
}
