/** One port's Hono app: the routes only. Request bodies, checks and streams are in the files it imports. */
import type { Context, Hono } from 'hono';
import type { SamplingParams } from '../engine/types.ts';
import { type ParsedRequest, parseChat, parseCompletion, parseGenerate } from './generation/bodies.ts';
import { checkOneReader } from './generation/choices.ts';
import { chatFormat, completionFormat, type Format, tokensFormat } from './generation/formats.ts';
import { checkModel, type GenerationDeps, respond } from './generation/generation.ts';
import { strategyOf, Targets } from './generation/strategy.ts';
import type { Admission } from './http/admission.ts';
import { baseApp, logError } from './http/base-app.ts';
import { HttpError } from './http/http-error.ts';
import { checkIdHeaders, conversationIdOf, requestIdOf, requireIds } from './http/ids.ts';
import { bodyOf, jsonResponse } from './http/json.ts';
import { requireKey } from './http/keys.ts';
import type { ServerLog } from './http/log.ts';
import { checkSizes, limitBody, mostBodyBytes } from './http/request-limits.ts';
import { endsWhenSent, requestSignal } from './http/request-signal.ts';
import type { Answered } from './metrics/http-metrics.ts';
import type { RequestObserver } from './observer.ts';
import type { PortService } from './service.ts';
import { mountTextRoutes } from './text/text-routes.ts';

export interface AppOptions {
  /** The program's version, for GET /version. */
  version: string;
  /** Unix seconds, for GET /v1/models. */
  created: number;
  /** Most text requests that wait while others run. */
  maxQueue: number;
  /** Limits generation. */
  admission: Admission;
  /** Sampling parameters for requests that do not set them. */
  defaults: Partial<SamplingParams>;
  /** Send kv_transfer_params in the last chunk of a stream. */
  streamingKvParams: boolean;
  /** Key that requests must send in the Authorization header; null: no key is required. */
  apiKey: string | null;
  /** Also accepted as the key. */
  adminKey: string | null;
  /** Origins whose pages may send requests; '*': any. Empty: same origin only. */
  corsOrigins: readonly string[];
  /** Host names that requests may use, in addition to localhost and IP addresses. */
  hosts: readonly string[];
  log: ServerLog;
  /** Notified of every generation request. */
  observer: RequestObserver;
  /** Injected failure for the next request, raised before its body is read; null: none. */
  failure(): HttpError | null;
  /** Called for every response. */
  answered(answered: Answered): void;
  /** Adds further routes. */
  mount(app: Hono): void;
}

export function createApp(service: PortService, options: AppOptions): Hono {
  const { version, created, maxQueue, log, apiKey, adminKey, corsOrigins, hosts } = options;
  const app = baseApp(service.name, log, { hosts, origins: corsOrigins }, options.answered);
  if (apiKey !== null) app.use(requireKey([apiKey, ...(adminKey === null ? [] : [adminKey])], '--api-key'));
  app.use(limitBody(mostBodyBytes(service)));
  mountGeneration(app, service, options);

  // After generation, which checks ids with the body, so that the holder is notified.
  app.use(requireIds);
  const health = (c: Context) => {
    const reason = service.unhealthy();
    if (reason !== null) throw new HttpError(503, reason, null, { 'Retry-After': '1' });
    return c.body(null, 200);
  };
  app.get('/health', health);
  // SageMaker's name for it.
  app.on(['GET', 'POST'], '/ping', health);
  app.get('/version', () => jsonResponse({ version }));
  app.get('/v1/models', () => jsonResponse(modelList(service, created)));
  // Model names may contain slashes, as on Hugging Face.
  app.get('/v1/models/:model{.+}', (c) => {
    const id = c.req.param('model');
    checkModel(id, service);
    return jsonResponse(modelList(service, created).data.find((model) => model.id === id)!);
  });
  mountTextRoutes(app, service, maxQueue);
  options.mount(app);
  return app;
}

function mountGeneration(app: Hono, service: PortService, options: AppOptions): void {
  const { admission, defaults, streamingKvParams, log, observer } = options;
  const deps: GenerationDeps = {
    ...{ service, admission, observer, defaults, streamingKvParams },
    onEnd: (record) => log.ended(service.name, record),
    onError: (error) => logError(log, error),
  };
  /** An engine never sees a request refused here, so the engine that holds blocks for it is notified from here. */
  const checked = (c: Context, body: unknown, read: (body: unknown) => ParsedRequest): ParsedRequest => {
    try {
      checkIdHeaders(c);
      checkSizes(body, service);
      const parsed = read(body);
      checkModel(parsed.model, service);
      checkOneReader(parsed);
      return parsed;
    } catch (error) {
      if (service.kind === 'engine') service.refused(body);
      throw error;
    }
  };
  const generates = (path: string, read: (body: unknown) => ParsedRequest, format: Format) =>
    app.post(path, async (c) => {
      const failure = options.failure();
      if (failure) throw failure;
      const body = await bodyOf(c);
      const host = c.req.header('Host');
      if (service.kind === 'engine' && host !== undefined) service.noteHost(host);
      const parsed = withHeaders(checked(c, body, read), c, service);
      const requestId = c.req.header('X-Request-Id') ? requestIdOf(c) : (parsed.requestId ?? requestIdOf(c));
      const targets = new Targets();
      const ends = { requestEnded: requestSignal(c), endsWhenSent: endsWhenSent(c) };
      const incoming = { parsed, requestId, ...ends, onEngines: targets.take };
      const response = await respond(deps, incoming, format);
      response.headers.set('X-Request-Id', requestId);
      targets.setHeaders(response.headers);
      return response;
    });
  generates('/v1/chat/completions', parseChat, chatFormat);
  generates('/v1/completions', parseCompletion, completionFormat);
  generates('/inference/v1/generate', parseGenerate, tokensFormat);
}

const withHeaders = (parsed: ParsedRequest, c: Context, { kind }: PortService): ParsedRequest => ({
  ...parsed,
  conversationId: parsed.conversationId ?? conversationIdOf(c),
  routing: kind === 'router' ? strategyOf(c) : null,
});

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
