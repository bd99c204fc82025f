/**
 * Answers requests that are rejected before the app sees them (not HTTP, headers too large or too late, no usable URL), with
 * the same error bodies as the app. Node and its adapter would send these without a body.
 */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorBody, HttpError } from './http-error.ts';
import { jsonResponse, safeJson } from './json.ts';

/** By the code of Node's parser or server. */
const REFUSALS: Readonly<Record<string, HttpError>> = {
  HPE_HEADER_OVERFLOW: new HttpError(431, 'the headers are larger than 16 KiB: shorten them'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new HttpError(413, "the body's chunk extensions are too large: omit them"),
  ERR_HTTP_REQUEST_TIMEOUT: new HttpError(
    408,
    'the request did not arrive completely in time: send it again',
  ),
};

/** For createServer: withHost() replaces Node's own check. */
export const SERVER_OPTIONS = { requireHostHeader: false };

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Refuses requests without the header Host, which HTTP/1.1 requires. Spells an IPv6 address in it as the adapter wants it. */
export const withHost =
  (answer: Listener): Listener =>
  (request, response) => {
    const { host } = request.headers;
    if (host === undefined && request.httpVersion === '1.1') {
      refuse(response, new HttpError(400, 'the header Host is missing, which HTTP/1.1 requires: send it'));
      return;
    }
    if (host !== undefined && /^\[[\da-f:.]+\](:\d+)?$/i.test(host)) request.headers.host = asInUrl(host);
    answer(request, response);
  };

/** As URLs write it, [::ffff:127.0.0.1] as [::ffff:7f00:1]: the adapter refuses another spelling. */
export const asInUrl = (host: string): string =>
  URL.canParse(`http://${host}`) ? new URL(`http://${host}`).host : host;

/** The response to a request from which the adapter cannot make a Request. */
export function unreadable(error: unknown): Response {
  const found = error instanceof Error ? error.message : String(error);
  const message = `the URL or the header Host cannot be read (${found}): wanted a path such as /v1/models, and Host: NAME or NAME:PORT`;
  return jsonResponse(errorBody(new HttpError(400, message)), 400);
}

/** Active while the server listens. `responsesOn`: the unfinished responses of a connection. */
export function answerInvalidRequests(
  server: Server,
  responsesOn: (socket: Duplex) => Iterable<ServerResponse>,
): void {
  server.on('checkExpectation', (_, response) =>
    refuse(response, new HttpError(417, 'the header Expect is not 100-continue: omit it')),
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Bytes within another response would corrupt it.
    const begun = [...responsesOn(socket)].some(({ headersSent }) => headersSent);
    if (socket.writable && !begun) socket.write(rawResponse(refusalOf(error)));
    socket.destroy();
  });
}

const refusalOf = ({ code = '', message }: NodeJS.ErrnoException): HttpError =>
  REFUSALS[code] ??
  new HttpError(400, `the request is not valid HTTP/1.1 (${message}): send it with an HTTP client`);

function rawResponse(error: HttpError): string {
  const body = safeJson(errorBody(error));
  return `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function refuse(response: ServerResponse, error: HttpError): void {
  const body = safeJson(errorBody(error));
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  // The rest of the connection is not read.
  response.writeHead(error.status, { ...headers, Connection: 'close' }).end(body);
}
