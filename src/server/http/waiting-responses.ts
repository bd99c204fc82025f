/**
 * Ends pipelined requests with their connection. A client may send several requests on one connection at once; their responses
 * are sent in turn. When the connection ends, Node emits 'close' only for the response whose turn it is.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/**
 * Active while the server listens: emits 'close' for every response of a connection that ends. Returns a function that gives a
 * connection's unfinished responses.
 */
export function endWithConnection(server: Server): (socket: Duplex) => ReadonlySet<ServerResponse> {
  const open = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on('connection', (socket: Socket) => {
    const responses = new Set<ServerResponse>();
    open.set(socket, responses);
    socket.once('close', () => {
      for (const response of responses) {
        // Node closes the response that has the socket.
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
  return (socket) => open.get(socket) ?? new Set();
}
