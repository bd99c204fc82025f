/**
 * The operator's routes: where KV is, what happened to it, and controls. They are on the admin port, with each port's name as
 * prefix (/router, /prefill-0, ...), and on the client ports only if the options say so.
 */
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { baseApp } from '../http/base-app.ts';
import { HttpError } from '../http/http-error.ts';
import { requireIds } from '../http/ids.ts';
import { jsonResponse } from '../http/json.ts';
import { carries, requireKey } from '../http/keys.ts';
import type { ServerLog } from '../http/log.ts';
import { limitBody, mostBodyBytes } from '../http/request-limits.ts';
import type { Observability } from '../observability.ts';
import type { PortService } from '../service.ts';

/** A port with its observability. */
export interface Observed {
  service: PortService;
  observability: Observability;
}

export interface OperatorRule {
  /** null: on a local port every client is an operator; on other ports nobody is. */
  adminKey: string | null;
  /** Only this machine can reach the port. */
  local: boolean;
}

export const isOperator =
  ({ adminKey, local }: OperatorRule) =>
  (c: Context): boolean =>
    adminKey === null ? local : carries(c, adminKey);

/** The operator's paths except /metrics, which every port has. */
function mountOperator(app: Hono, { service, observability }: Observed): void {
  observability.mountDetails(app);
  if (service.kind !== 'engine') return;
  app.post('/reset_prefix_cache', async (c) => {
    if (await service.resetPrefixCache()) return c.body(null, 200);
    throw new HttpError(
      409,
      'the prefix cache was not reset: some blocks are in use or held for a reader; retry later',
    );
  });
}

/** Adds the operator's paths to a client port. They require the admin key if there is one. */
export function mountOnClientPort(app: Hono, observed: Observed, rule: OperatorRule): void {
  const allowed = isOperator(rule);
  const guard: MiddlewareHandler = async (c, next) => {
    if (allowed(c)) return next();
    const wanted = 'Authorization: Bearer <the key of --admin-key>';
    throw new HttpError(401, `${c.req.path} is for operators: wanted the header ${wanted}`, null, {
      'WWW-Authenticate': 'Bearer',
    });
  };
  for (const path of ['/kv/*', '/reset_prefix_cache']) app.use(path, guard);
  mountOperator(app, observed);
}

/** The admin port's app: the operator's paths of all `ports`, each under the port's name. */
export function adminApp(
  ports: readonly Observed[],
  options: { adminKey: string | null; version: string; log: ServerLog; hosts?: readonly string[] },
): Hono {
  const app = baseApp('admin', options.log, { hosts: options.hosts ?? [], origins: [] });
  if (options.adminKey !== null) app.use(requireKey([options.adminKey], '--admin-key'));
  app.use(requireIds);
  app.use(limitBody(Math.max(...ports.map(({ service }) => mostBodyBytes(service)))));
  app.get('/health', (c) => c.body(null, 200));
  app.get('/version', () => jsonResponse({ version: options.version }));
  for (const port of ports) {
    const inside = new Hono();
    port.observability.mountMetrics(inside, () => true);
    mountOperator(inside, port);
    app.route(`/${port.service.name}`, inside);
  }
  return app;
}
