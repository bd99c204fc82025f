/**
 * What is an operator's business and no client's: whose KV lies where, what happened to it, and controls. On a port of its
 * own, where each port's paths stand behind its name (/router, /prefill-0, ...); on the clients' ports only when asked for.
 */
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { baseApp } from './base-app.ts';
import { HttpError } from './http-error.ts';
import { jsonResponse } from './json.ts';
import { carries, requireKey } from './keys.ts';
import type { ServerLog } from './log.ts';
import type { Observability } from './observability.ts';
import type { PortService } from './service.ts';
import { limitBody, mostBodyBytes } from './sizes.ts';

/** A port as an operator sees it. */
export interface Observed {
  service: PortService;
  observability: Observability;
}

export interface OperatorRule {
  /** null: whoever reaches a port that only this machine reaches is an operator. */
  adminKey: string | null;
  /** Nobody but this machine reaches the port. */
  local: boolean;
}

export const isOperator =
  ({ adminKey, local }: OperatorRule) =>
  (c: Context): boolean =>
    adminKey === null ? local : carries(c, adminKey);

/** An operator's paths but /metrics, which every port has. */
function mountOperator(app: Hono, { service, observability }: Observed): void {
  observability.mountDetails(app);
  if (service.kind !== 'engine') return;
  app.post('/reset_prefix_cache', async (c) => {
    if (await service.resetPrefixCache()) return c.body(null, 200);
    throw new HttpError(409, 'the prefix cache was not reset: some blocks are in use, or held for a reader');
  });
}

/** An operator's paths on a client's port: with the admin key where there is one. */
export function mountOnClientPort(app: Hono, observed: Observed, rule: OperatorRule): void {
  const mayAsk = isOperator(rule);
  const guard: MiddlewareHandler = async (c, next) => {
    if (mayAsk(c)) return next();
    const wanted = 'Authorization: Bearer <the key of --admin-key>';
    throw new HttpError(401, `${c.req.path} is the operator's: wanted the header ${wanted}`, null, {
      'WWW-Authenticate': 'Bearer',
    });
  };
  for (const path of ['/kv/*', '/reset_prefix_cache']) app.use(path, guard);
  mountOperator(app, observed);
}

/** The admin port: all that `ports` tell, each behind its name. */
export function adminApp(
  ports: readonly Observed[],
  options: { adminKey: string | null; version: string; log: ServerLog; hosts?: readonly string[] },
): Hono {
  const app = baseApp('admin', options.log, { hosts: options.hosts ?? [], origins: [] });
  if (options.adminKey !== null) app.use(requireKey([options.adminKey], '--admin-key'));
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
