/**
 * Keeps a connection usable after an upload was refused before it had arrived: the rest of the body is read and dropped, so
 * that the client gets to read the error. Node does so by itself for bodies of which nothing was read. An upload that does
 * not end is cut off like any request that takes too long.
 */
import type { Server } from 'node:http';

export function dropRefusedUploads(server: Server): void {
  server.on('request', (request, response) => {
    response.once('finish', () => {
      if (request.readableEnded) return;
      // The body's reader, which would pause it again.
      request.removeAllListeners('data');
      request.resume();
    });
  });
}
