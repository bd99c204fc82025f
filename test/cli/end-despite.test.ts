/** How the program ends although a thread hangs. */
import { expect, test } from 'vitest';
import { endDespite } from '../../src/cli/node/end-despite.ts';

function outputs() {
  const log: string[] = [];
  const stream = (name: string) =>
    ({
      write(text: string, written?: () => void) {
        if (text) log.push(`${name}: ${text}`);
        if (written) setImmediate(() => log.push(`${name} written`) && written());
        return true;
      },
    }) as unknown as NodeJS.WriteStream;
  return { log, process: { stdout: stream('stdout'), stderr: stream('stderr') } };
}

test('threads that hang are named, and the process ends at once when its output is written', async () => {
  const { log, process } = outputs();
  await endDespite(['store', 'engine'], process, () => log.push('exit'));
  expect(log).toEqual([
    'stderr: kvferry: ended without waiting for threads that hang: store, engine\n',
    ...['stdout written', 'stderr written', 'exit'],
  ]);
});

test('without such threads, the process is left to end by itself', async () => {
  const { log, process } = outputs();
  await endDespite([], process, () => log.push('exit'));
  expect(log).toEqual([]);
});
