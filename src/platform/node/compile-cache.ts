/** Node's on-disk cache of compiled modules, for modules imported after the call. */
import module from 'node:module';
import { makeDirectorySync } from './make-directory.ts';
import { userCacheFile } from './user-cache.ts';

/**
 * Enables the cache. Call once in each thread. Does nothing before Node 22.1, or if the cache cannot be written. Node's own
 * choice would be the shared temporary directory, in which another user may have put compiled code under the folder's name.
 */
export function useCompileCache(): void {
  const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown };
  if (!enableCompileCache) return;
  const folder = process.env.NODE_COMPILE_CACHE || userCacheFile('compiled');
  try {
    // Node would create it as its recursive mkdir does.
    makeDirectorySync(folder);
  } catch {
    return;
  }
  enableCompileCache(folder);
}
