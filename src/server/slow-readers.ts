/**
 * A client that does not take what it asked for keeps memory, a connection and a place among those that are served: its
 * connection ends once nothing was taken for so long. A response that waits for its engine, and has nothing to be taken,
 * may take its time. Knows bytes and sockets only, so that it holds for every path.
 */
import type { Server, ServerResponse } from 'node:http';

/** Looks so often within the time that a reader has. */
const LOOKS = 4;

interface Seen {
  /** Bytes that the system took of the connection's. */
  taken: number;
  /** Looks that found the same bytes waiting. */
  stuck: number;
}

/** For as long as the server listens. `writeTimeoutMs`: how long nothing may be taken while bytes wait. */
export function endSlowReaders(server: Server, writeTimeoutMs: number): void {
  const open = new Map<ServerResponse, Seen>();
  server.on('request', (_, response) => {
    open.set(response, { taken: 0, stuck: 0 });
    response.once('close', () => open.delete(response));
  });
  const look = setInterval(() => {
    for (const [response, seen] of open) {
      const { socket } = response;
      if (!socket) continue;
      const taken = socket.bytesWritten - socket.writableLength;
      const waits = response.writableLength > 0;
      seen.stuck = waits && taken === seen.taken ? seen.stuck + 1 : 0;
      seen.taken = taken;
      if (seen.stuck >= LOOKS) socket.destroy();
    }
  }, writeTimeoutMs / LOOKS);
  look.unref();
  server.once('close', () => clearInterval(look));
}
