/** What every port's app has in common: one shape for errors, an access log line, checks of host and origin. */
import { Hono } from 'hono';
import { cors } from 'hono/cors';
import type { Answered } from '../metrics/http-metrics.ts';
import { checkHostAndOrigin, type HostRules } from './host-check.ts';
import { asHttpError, errorBody, HttpError } from './http-error.ts';
import { requestIdOf } from './ids.ts';
import { jsonResponse } from './json.ts';
import type { ServerLog } from './log.ts';
import { responseFailed } from './request-signal.ts';

/** Logs an error with its stack. */
export function logError(log: ServerLog, error: unknown): void {
  log.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
}

/** All routes that match the path, for any method, including those with a parameter (/v1/models/:model{.+}). */
function routesAt(app: Hono, pathname: string): { path: string; method: string }[] {
  const isAt = (path: string) =>
    path === pathname || (path.includes(':') && new RegExp(`^${path.replace(NAMED, '$2')}$`).test(pathname));
  return app.routes.filter(({ path, method }) => method !== 'ALL' && isAt(path));
}

/** What to ask for instead of an unknown path. On the admin port /metrics, for example, is under /router. */
function wanted(app: Hono, pathname: string): string {
  const paths = app.routes.filter(({ method }) => method !== 'ALL').map(({ path }) => path);
  const prefixed = pathname === '/' ? undefined : paths.find((path) => path.endsWith(pathname));
  return prefixed ? `wanted a path such as ${prefixed}` : 'docs/serving.md lists the paths of each port';
}

const NAMED = /:(\w+)\{(.+?)\}/g;

/** Headers that pages of other origins may read. */
const EXPOSED = ['X-Request-Id', 'Retry-After', 'target-pod', 'prefill-target-pod'];

/** `port`: its name in the log; `answered`: called for every response. */
export function baseApp(
  port: string,
  log: ServerLog,
  door: HostRules,
  answered: (answered: Answered) => void = () => {},
): Hono {
  const app = new Hono();
  app.onError((error, c) => {
    const known = asHttpError(error);
    if (known.status === 500) logError(log, error);
    responseFailed(c, known);
    return jsonResponse(errorBody(known), known.status, { ...known.headers, 'X-Request-Id': requestIdOf(c) });
  });
  app.notFound((c) => {
    const methods = routesAt(app, c.req.path).flatMap(({ method }) =>
      method === 'GET' ? ['GET', 'HEAD'] : [method],
    );
    const here = [...new Set(methods)].join(', ');
    if (here === '')
      throw new HttpError(
        404,
        `${c.req.method} ${c.req.path} does not exist here: ${wanted(app, c.req.path)}`,
      );
    throw new HttpError(405, `${c.req.path} accepts ${here}, not ${c.req.method}`, null, { Allow: here });
  });
  app.use(async (c, next) => {
    const begun = performance.now();
    await next();
    const { method, path } = c.req;
    const { status } = c.res;
    // The body may have set the request id.
    const requestId = c.res.headers.get('X-Request-Id') ?? requestIdOf(c);
    c.res.headers.set('X-Request-Id', requestId);
    const [known] = routesAt(app, path);
    // In FastAPI's notation: /v1/models/{model}.
    answered({ method, path: known?.path.replace(NAMED, '{$1}') ?? null, status });
    // As it was sent: a decoded one could look like other fields of the log line, or turn its direction.
    const sent = new URL(c.req.url).pathname;
    log.access({ port, method, path: sent, status, ms: performance.now() - begun, requestId });
  });
  app.use(checkHostAndOrigin(door));
  if (door.origins.length > 0) {
    const origin = door.origins.includes('*') ? '*' : [...door.origins];
    app.use(cors({ origin, exposeHeaders: EXPOSED }));
  }
  return app;
}
