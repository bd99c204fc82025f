/** Contenders in processes of their own: asked one at a time, while the others stand still. */
import type { ChildProcess } from 'node:child_process';

export type Failed = { kind: 'missing' | 'failed'; why: string };

/** What it answers; that it failed when its process ends. */
export function ask<Answer>(child: ChildProcess, message: object): Promise<Answer | Failed> {
  return new Promise((resolve) => {
    const ended = () => resolve({ kind: 'failed', why: 'its process ended' });
    child.once('exit', ended);
    child.once('message', (answer) => {
      child.off('exit', ended);
      resolve(answer as Answer);
    });
    // One that has ended already says so no more.
    child.send(message, (error) => {
      if (error) ended();
    });
  });
}

/** All but one: some libraries' threads go on spinning after their turn. */
export function standStill(all: readonly { child: ChildProcess }[], but: { child: ChildProcess }): void {
  if (process.platform === 'win32') return;
  for (const { child } of all) child.kill(child === but.child ? 'SIGCONT' : 'SIGSTOP');
}
