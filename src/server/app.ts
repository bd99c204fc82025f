/** One port's Hono app, from the service behind it. Routes only; shapes, checks and streams are in the files it names. */
import { Hono } from 'hono';
import { asHttpError, errorBody, HttpError } from './http-error.ts';
import { jsonResponse } from './json.ts';
import type { RequestObserver } from './observer.ts';
import type { PortService } from './service.ts';

export interface AppOptions {
  /** Of the program, for GET /version. */
  version: string;
  /** Unix seconds, as GET /v1/models tells. */
  created: number;
  /** Told of errors that are nobody's request's fault. */
  onError?: (error: unknown) => void;
  /** Told of every generation request. */
  observer?: RequestObserver;
  /** Adds routes of other files: metrics, KV events, cache queries. */
  mount?: (app: Hono) => void;
}

export function createApp(service: PortService, options: AppOptions): Hono {
  const app = new Hono();
  app.onError((error) => {
    const known = asHttpError(error);
    if (known.status >= 500) options.onError?.(error);
    return jsonResponse(errorBody(known), known.status, known.headers);
  });
  app.notFound((c) => {
    const missing = new HttpError(404, `there is no ${c.req.method} ${c.req.path} here`);
    return jsonResponse(errorBody(missing), 404);
  });
  app.get('/health', (c) => {
    const reason = service.unhealthy();
    if (reason !== null) throw new HttpError(503, reason, null, { 'Retry-After': '1' });
    return c.body(null, 200);
  });
  app.get('/version', () => jsonResponse({ version: options.version }));
  app.get('/v1/models', () => jsonResponse(modelList(service, options.created)));
  options.mount?.(app);
  return app;
}

function modelList({ model }: PortService, created: number) {
  return {
    object: 'list',
    data: model.names.map((id) => ({
      id,
      object: 'model',
      created,
      owned_by: 'kvferry',
      root: model.names[0],
      parent: null,
      max_model_len: model.maxModelLen,
    })),
  };
}
