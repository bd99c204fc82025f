/** Writes one tar entry into a flat folder; entries other than files are skipped. */
import { createWriteStream } from 'node:fs';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

export function writeEntry(
  folder: string,
  header: { name: string; type?: string | null | undefined },
  stream: Readable,
  next: (error?: Error | null) => void,
): void {
  if (header.type !== 'file') {
    stream.resume();
    stream.on('end', () => next());
    return;
  }
  pipeline(stream, createWriteStream(path.join(folder, path.basename(header.name)))).then(() => next(), next);
}
