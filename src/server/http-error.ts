/** Errors as a client gets them: OpenAI's shape with vLLM's type names. */
import { ConflictError, KvferryError, messageOf, RoutingError } from '../errors.ts';

export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: number };
}

const types: Readonly<Record<number, string>> = {
  400: 'BadRequestError',
  401: 'AuthenticationError',
  403: 'PermissionDeniedError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  409: 'ConflictError',
  413: 'RequestEntityTooLargeError',
  415: 'UnsupportedMediaTypeError',
  429: 'RateLimitError',
  500: 'InternalServerError',
  503: 'ServiceUnavailableError',
};

/** A request that ends with this status; `param` names the field at fault. */
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

/** Seconds: a step or a short answer later there may be room. */
const RETRY_AFTER = '1';

/** 503: there is no room now. */
export const comeBack = (message: string): HttpError =>
  new HttpError(503, message, null, { 'Retry-After': RETRY_AFTER });

/** Its thread is stuck, or has been busy for unusually long. */
export const noAnswer = (engineId: string): HttpError =>
  comeBack(`engine ${engineId} does not answer: come back, or ask another`);

/** Who asked is to come back, and will name the same blocks. */
export const isComeBack = (error: unknown): boolean => error instanceof HttpError && error.status === 503;

/** What was asked for cannot be: more engines than there is memory for, too. */
const ASKED_FOR: ReadonlySet<string> = new Set(['request', 'config', 'model', 'adapter']);

/** Any error as the one that a client is told. `param` is the field to blame when the engine refused the request. */
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
