/**
 * Closes connections whose clients stop reading: such a client occupies memory, a connection and a place among the running
 * requests. A response that has no bytes waiting, because its engine is still working, is not affected. Works on bytes and
 * sockets, so it covers every path.
 */
import type { Server, ServerResponse } from 'node:http';

/** Checks per timeout. */
const LOOKS = 4;

interface Progress {
  /** Bytes of the connection that the operating system has accepted. */
  taken: number;
  /** Consecutive checks without progress while bytes were waiting. */
  stuck: number;
}

/** Active while the server listens. `writeTimeoutMs`: how long a client may read nothing while bytes wait. */
export function endSlowReaders(server: Server, writeTimeoutMs: number): void {
  const open = new Map<ServerResponse, Progress>();
  server.on('request', (_, response) => {
    open.set(response, { taken: 0, stuck: 0 });
    response.once('close', () => open.delete(response));
  });
  const timer = setInterval(() => {
    for (const [response, progress] of open) {
      const { socket } = response;
      if (!socket) continue;
      const taken = socket.bytesWritten - socket.writableLength;
      const waits = response.writableLength > 0;
      progress.stuck = waits && taken === progress.taken ? progress.stuck + 1 : 0;
      progress.taken = taken;
      if (progress.stuck >= LOOKS) socket.destroy();
    }
  }, writeTimeoutMs / LOOKS);
  timer.unref();
  server.once('close', () => clearInterval(timer));
}
