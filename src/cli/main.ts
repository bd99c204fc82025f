#!/usr/bin/env node
/** The program: runs main() in a real process. */
import { beginAhead } from '../platform/node/ahead.ts';
import { useCompileCache } from '../platform/node/compile-cache.ts';
import { endThreadsAhead } from '../platform/node/threads.ts';

const args = process.argv.slice(2);
beginAhead(args);
useCompileCache();
// Loaded while engine threads start.
const { main } = await import('./app.ts');
const { nodeDeps } = await import('./node-deps.ts');
const code = await main(args, await nodeDeps());
await endThreadsAhead();
// Not process.exit(): streams may still hold output, and the process ends when they are empty.
// An output error may have set the exit code already.
process.exitCode ||= code;
