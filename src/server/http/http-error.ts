/** HTTP errors: OpenAI's error object with vLLM's type names. */
import { ConflictError, KvferryError, messageOf, RoutingError } from '../../errors.ts';

export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: number };
}

const types: Readonly<Record<number, string>> = {
  400: 'BadRequestError',
  401: 'AuthenticationError',
  403: 'PermissionDeniedError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  408: 'RequestTimeoutError',
  409: 'ConflictError',
  413: 'RequestEntityTooLargeError',
  415: 'UnsupportedMediaTypeError',
  417: 'ExpectationFailedError',
  429: 'RateLimitError',
  431: 'RequestHeaderFieldsTooLargeError',
  500: 'InternalServerError',
  503: 'ServiceUnavailableError',
};

/** Ends a request with this status; `param` names the field at fault. */
export class HttpError extends Error {
  readonly status: number;
  readonly param: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    param: string | null = null,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
    this.name = 'HttpError';
    this.status = status;
    this.param = param;
    this.headers = headers;
  }
}

/** Seconds. After a step or a short answer there may be a free place. */
const RETRY_AFTER = '1';

/** 503 with Retry-After: the request cannot be served now. */
export const comeBack = (message: string): HttpError =>
  new HttpError(503, message, null, { 'Retry-After': RETRY_AFTER });

/** The engine's thread is stuck, or has been busy for unusually long. */
export const noAnswer = (engineId: string): HttpError =>
  comeBack(`engine ${engineId} does not answer: retry, or use another engine`);

/** Whether the client should retry; the retry will name the same blocks. */
export const isRetryLater = (error: unknown): boolean => error instanceof HttpError && error.status === 503;

/** Error codes for requests that cannot be met (for example, more engines than fit in memory): status 400. */
const ASKED_FOR: ReadonlySet<string> = new Set(['request', 'config', 'model', 'adapter']);

/** Converts any error to the one that the client receives. `param`: the field to name when the engine refused the request. */
export function asHttpError(error: unknown, param: string | null = null): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof ConflictError) return new HttpError(409, error.message);
  if (error instanceof RoutingError) return new HttpError(400, error.message, 'routing-strategy');
  if (error instanceof KvferryError) {
    if (ASKED_FOR.has(error.code)) return new HttpError(400, error.message, param);
    if (error.code === 'refused') return new HttpError(400, error.message, 'kv_transfer_params');
    if (error.code === 'engine_dead') return comeBack(error.message);
    return new HttpError(500, error.message);
  }
  return new HttpError(500, messageOf(error));
}

export function errorBody({ status, message, param }: HttpError): ErrorBody {
  return { error: { message, type: types[status] ?? 'InternalServerError', param, code: status } };
}
