/** Runs main() in a real process. */
import { useCompileCache } from '../platform/node/compile-cache.ts';
import { fileCallHangs } from '../platform/node/hanging.ts';
import { keepFreedMemory } from '../platform/node/malloc.ts';
import { beginPreload } from '../platform/node/preload.ts';
import { endThreadsAhead, hangingThreads } from '../platform/node/threads.ts';
import { endDespite } from './node/end-despite.ts';

/** `onListening`: called when main() listens to signals. */
export async function program(onListening: () => void): Promise<void> {
  keepFreedMemory();
  const args = process.argv.slice(2);
  beginPreload(args);
  useCompileCache();
  // Loaded while engine threads start.
  const { main } = await import('./app.ts');
  const { nodeDeps } = await import('./node/node-deps.ts');
  const deps = await nodeDeps();
  const running = main(args, deps);
  onListening();
  const code = await running;
  await endThreadsAhead();
  // Not process.exit(): streams may still hold output, and the process ends when they are empty.
  // An output error may have set the exit code already.
  process.exitCode ||= code;
  await endDespite({ threads: hangingThreads(), files: await fileCallHangs() }, process, deps.exitNow);
}
