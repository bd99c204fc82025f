#!/usr/bin/env node
/** The program: main() with a real process around it. */
import { main } from './app.ts';
import { nodeDeps } from './node-deps.ts';

const code = await main(process.argv.slice(2), await nodeDeps());
// Streams may still hold what was written: the process ends when they are empty.
process.exitCode = code;
