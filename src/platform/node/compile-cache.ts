/** Node's on-disk cache of compiled modules, for modules imported after the call. */
import module from 'node:module';

/** Enables the cache. Call once in each thread. Does nothing before Node 22.1, or if the cache cannot be written. */
export function useCompileCache(): void {
  (module as { enableCompileCache?: () => unknown }).enableCompileCache?.();
}
