/** Runs main() in a real process. */
import { fileCallHangs } from '../platform/node/hanging.ts';
import { endThreadsAhead, hangingThreads } from '../platform/node/threads.ts';
import { loadProgram } from './load-program.ts';
import { endDespite } from './node/end-despite.ts';

/** `onListening`: called when main() listens to signals. */
export async function program(onListening: () => void): Promise<void> {
  const args = process.argv.slice(2);
  const { main, nodeDeps } = await loadProgram(args);
  const deps = await nodeDeps();
  const running = main(args, deps);
  onListening();
  const code = await running;
  await endThreadsAhead();
  // Not process.exit(): streams may still hold output, and the process ends when they are empty.
  // An output error may have set the exit code already.
  process.exitCode ||= code;
  await endDespite({ threads: hangingThreads(), files: await fileCallHangs() }, process, deps.exitNow);
}
