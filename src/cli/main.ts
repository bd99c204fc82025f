#!/usr/bin/env node
/** The program: main() with a real process around it. */
import { beginAhead } from '../platform/node/ahead.ts';
import { useCompileCache } from '../platform/node/compile-cache.ts';
import { endThreadsAhead } from '../platform/node/threads.ts';

const args = process.argv.slice(2);
beginAhead(args);
useCompileCache();
// Loaded meanwhile.
const { main } = await import('./app.ts');
const { nodeDeps } = await import('./node-deps.ts');
const code = await main(args, await nodeDeps());
await endThreadsAhead();
// Streams may still hold what was written: the process ends when they are empty.
// Where what was written could not be kept, the code says so already.
process.exitCode ||= code;
