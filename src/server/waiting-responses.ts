/**
 * Of requests that a client sends at once by one connection each has its response when its turn comes, and Node tells
 * those that wait nothing of a connection that ends: here they end with it.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** For as long as the server listens: every response is closed at last, as the one is whose turn it is. */
export function endWithConnection(server: Server): void {
  const open = new WeakMap<Socket, Set<ServerResponse>>();
  server.on('connection', (socket: Socket) => {
    const responses = new Set<ServerResponse>();
    open.set(socket, responses);
    socket.once('close', () => {
      for (const response of responses) {
        // The one that has the socket is told by Node.
        if (response.socket !== null) continue;
        response.destroy();
        response.emit('close');
      }
    });
  });
  server.on('request', ({ socket }, response) => {
    const responses = open.get(socket);
    responses?.add(response);
    response.once('close', () => responses?.delete(response));
  });
}
