#!/usr/bin/env node
/** The program: main() with a real process around it. */
import { probeAhead } from '../platform/node/adapters.ts';

const args = process.argv.slice(2);
probeAhead(args);
// Loaded while the probe runs.
const { main } = await import('./app.ts');
const { nodeDeps } = await import('./node-deps.ts');
const code = await main(args, await nodeDeps());
// Streams may still hold what was written: the process ends when they are empty.
process.exitCode = code;
