/** Standard output and error. Their reader may go away early, as `head` does. */
import { EXIT, type Output } from '../deps.ts';

export interface ProcessOutputs {
  stdout: Output;
  stderr: Output;
  /** Calls back when output can no longer be delivered; returns a function that stops listening. */
  onLost(listener: () => void): () => void;
}

/** EOF is what Windows says. */
const READER_GONE: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EOF']);

/** Call once per process. From then on stream errors do not end the process. */
export function processOutputs(): ProcessOutputs {
  const listeners = new Set<() => void>();
  const watched = (stream: NodeJS.WriteStream, name: string): Output => {
    let open = true;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!open) return;
      open = false;
      if (!READER_GONE.has(error.code)) {
        process.exitCode = EXIT.failed;
        if (stream !== process.stderr)
          process.stderr.write(`kvferry: cannot write to ${name}: ${error.message}\n`);
      }
      for (const listener of listeners) listener();
    });
    return {
      write: (text) => void (open && stream.write(text)),
      isTTY: stream.isTTY === true,
      columns: stream.columns ?? 80,
    };
  };
  return {
    stdout: watched(process.stdout, 'standard output'),
    stderr: watched(process.stderr, 'standard error'),
    onLost(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
