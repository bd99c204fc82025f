/**
 * Renames a file, replacing one that may be there. Windows refuses that while another program has either file open (a reader,
 * a virus scanner, the search index), so there it is tried again for about a second.
 */
import { rename } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';

const IN_USE = ['EPERM', 'EACCES', 'EBUSY'];
const PAUSES_MS = [10, 30, 100, 300, 500];

export async function replaceFile(
  from: string,
  to: string,
  system: { rename: typeof rename; sleep: (ms: number) => Promise<unknown> } = { rename, sleep: setTimeout },
): Promise<void> {
  for (const pauseMs of process.platform === 'win32' ? PAUSES_MS : []) {
    try {
      return await system.rename(from, to);
    } catch (error) {
      if (!IN_USE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      await system.sleep(pauseMs);
    }
  }
  await system.rename(from, to);
}
