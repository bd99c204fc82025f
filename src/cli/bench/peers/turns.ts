/** Contenders in their own processes, asked one at a time while the others are stopped. */
import type { ChildProcess } from 'node:child_process';

export type Failed = { kind: 'missing' | 'failed'; why: string };

/** The contender's answer; a failure if its process ends. */
export function ask<Answer>(child: ChildProcess, message: object): Promise<Answer | Failed> {
  return new Promise((resolve) => {
    const ended = () => resolve({ kind: 'failed', why: 'its process ended' });
    child.once('exit', ended);
    child.once('message', (answer) => {
      child.off('exit', ended);
      resolve(answer as Answer);
    });
    // A process that has already ended sends no further event.
    child.send(message, (error) => {
      if (error) ended();
    });
  });
}

/** Stops all but one, because some libraries' threads keep spinning after their turn. */
export function standStill(all: readonly { child: ChildProcess }[], but: { child: ChildProcess }): void {
  if (process.platform === 'win32') return;
  for (const { child } of all) child.kill(child === but.child ? 'SIGCONT' : 'SIGSTOP');
}
