#!/usr/bin/env node
/** The program's entry. Everything else is loaded once signals end it and Node is new enough. */
import { nodeTooOld } from '../platform/node/version.ts';

const tooOld = nodeTooOld(process.versions.node);
if (tooOld !== null) {
  // Before anything that such a Node lacks.
  process.stderr.write(`kvferry: ${tooOld}\n`);
  process.exit(1);
}

// The kernel drops a signal to a container's first process unless it is listened to. Codes as a shell reports them.
const ends = { SIGINT: () => process.exit(130), SIGTERM: () => process.exit(143) };
const signals = process.pid === 1 ? Object.entries(ends) : [];
for (const [signal, end] of signals) process.on(signal, end);

const { program } = await import('./program.ts');
await program(() => {
  for (const [signal, end] of signals) process.off(signal, end);
});
