/** Ends a process that Node would not end, because one of its threads or file calls hangs: Node waits for all of them. */

interface Outputs {
  stdout: Pick<NodeJS.WriteStream, 'write'>;
  stderr: Pick<NodeJS.WriteStream, 'write'>;
}

export interface Hanging {
  /** What runs in the threads that hang. */
  threads: readonly string[];
  /** Whether a file call has not returned: one that was interrupted, or whose failure has been reported. */
  files: boolean;
}

/** Once the output is written. Does nothing if nothing hangs. */
export async function endDespite(
  { threads, files }: Hanging,
  { stdout, stderr }: Outputs,
  exitNow: () => void,
): Promise<void> {
  if (threads.length === 0 && !files) return;
  if (threads.length > 0)
    stderr.write(`kvferry: ended without waiting for threads that hang: ${threads.join(', ')}\n`);
  await Promise.all([stdout, stderr].map((stream) => new Promise((resolve) => stream.write('', resolve))));
  exitNow();
}
