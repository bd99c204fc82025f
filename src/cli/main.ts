#!/usr/bin/env node
import { useCompileCache } from '../platform/node/compile-cache.ts';
/** The program: runs main() in a real process. */
import { fileCallHangs } from '../platform/node/hanging.ts';
import { keepFreedMemory } from '../platform/node/malloc.ts';
import { beginPreload } from '../platform/node/preload.ts';
import { endThreadsAhead, hangingThreads } from '../platform/node/threads.ts';
import { nodeTooOld } from '../platform/node/version.ts';
import { endDespite } from './node/end-despite.ts';

const tooOld = nodeTooOld(process.versions.node);
if (tooOld !== null) {
  // Before anything that such a Node lacks.
  process.stderr.write(`kvferry: ${tooOld}\n`);
  process.exit(1);
}
keepFreedMemory();
const args = process.argv.slice(2);
beginPreload(args);
useCompileCache();
// Loaded while engine threads start.
const { main } = await import('./app.ts');
const { nodeDeps } = await import('./node/node-deps.ts');
const deps = await nodeDeps();
const code = await main(args, deps);
await endThreadsAhead();
// Not process.exit(): streams may still hold output, and the process ends when they are empty.
// An output error may have set the exit code already.
process.exitCode ||= code;
await endDespite({ threads: hangingThreads(), files: await fileCallHangs() }, process, deps.exitNow);
