/** Loads the program. What an engine needs first is begun before, so that both happen at once. */
import { useCompileCache } from '../platform/node/compile-cache.ts';
import { keepFreedMemory } from '../platform/node/malloc.ts';
import { beginPreload } from '../platform/node/preload.ts';

/** `args`: the command line. */
export async function loadProgram(args: readonly string[]) {
  keepFreedMemory();
  beginPreload(args);
  useCompileCache();
  // Loaded while engine threads start.
  const { main } = await import('./app.ts');
  const { nodeDeps } = await import('./node/node-deps.ts');
  return { main, nodeDeps };
}
