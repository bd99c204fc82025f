/** Node's own cache of compiled modules, on disk: what it holds a start need not compile. Of modules imported from now on. */
import module from 'node:module';

/** Node 22.1 and later have it; where it cannot be kept, nothing happens. Once in each thread. */
export function useCompileCache(): void {
  (module as { enableCompileCache?: () => unknown }).enableCompileCache?.();
}
