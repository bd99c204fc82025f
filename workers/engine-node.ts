/** Entry point of an engine's thread in Node. */
import { useCompileCache } from '../src/platform/node/compile-cache.ts';

useCompileCache();
await import('./engine-thread.ts');
