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
  await endDespite({ threads: ['store', 'engine'], files: false }, process, () => log.push('exit'));
  expect(log).toEqual([
    'stderr: kvferry: ended without waiting for threads that hang: store, engine\n',
    ...['stdout written', 'stderr written', 'exit'],
  ]);
});

test('a file call that has not returned ends the process too, without a word', async () => {
  const { log, process } = outputs();
  await endDespite({ threads: [], files: true }, process, () => log.push('exit'));
  expect(log).toEqual(['stdout written', 'stderr written', 'exit']);
});

test('if nothing hangs, the process is left to end by itself', async () => {
  const { log, process } = outputs();
  await endDespite({ threads: [], files: false }, process, () => log.push('exit'));
  expect(log).toEqual([]);
});
