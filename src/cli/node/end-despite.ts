/** Ends a process that Node would not end, because one of its threads hangs: Node waits for every thread. */

interface Outputs {
  stdout: Pick<NodeJS.WriteStream, 'write'>;
  stderr: Pick<NodeJS.WriteStream, 'write'>;
}

/** Once the output is written. `threads`: what runs in those that hang; does nothing if there are none. */
export async function endDespite(
  threads: readonly string[],
  { stdout, stderr }: Outputs,
  exitNow: () => void,
): Promise<void> {
  if (threads.length === 0) return;
  stderr.write(`kvferry: ended without waiting for threads that hang: ${threads.join(', ')}\n`);
  await Promise.all([stdout, stderr].map((stream) => new Promise((resolve) => stream.write('', resolve))));
  exitNow();
}
