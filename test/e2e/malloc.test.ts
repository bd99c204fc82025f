/** The program keeps freed memory for what it allocates next. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';

const header = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
const isGlibc = header.header.glibcVersionRuntime !== undefined;
const ROUNDS = 10;
const MIB_A_ROUND = 8;
const PAGES_A_MIB = 256;

/** Page faults of a process that again and again fills some MiB and frees them. `first`: runs before. */
function faults(first: string): number {
  const code = `
    import { setTimeout as sleep } from 'node:timers/promises';
    import { keepFreedMemory } from '${pathToFileURL(path.resolve('dist/src/platform/node/malloc.js'))}';
    ${first}
    const round = async () => {
      let all = Array.from({ length: ${MIB_A_ROUND} }, () => Buffer.allocUnsafeSlow(2 ** 20).fill(1));
      all = null;
      gc();
      // Buffers are freed by another thread.
      await sleep(20);
    };
    for (let i = 0; i < 3; i++) await round();
    const begun = process.resourceUsage().minorPageFault;
    for (let i = 0; i < ${ROUNDS}; i++) await round();
    console.log(process.resourceUsage().minorPageFault - begun);`;
  return Number(
    execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', code], { encoding: 'utf8' }),
  );
}

test.runIf(isGlibc)('memory that was freed is not returned to the system and asked for again', () => {
  const pages = ROUNDS * MIB_A_ROUND * PAGES_A_MIB;
  expect(faults(''), 'what the test looks for').toBeGreaterThan(pages / 2);
  expect(faults('keepFreedMemory();')).toBeLessThan(pages / 10);
});
