/**
 * Error classes, one per kind of cause, each with a stable code. toWire and fromWire carry an error between threads, so a
 * caller sees the same class, code and cause as the thread that threw it. Subclasses that only the main thread throws
 * arrive as the class that they extend.
 */

export type ErrorCode =
  | 'config' // invalid user input: exit code 2, HTTP 400
  | 'model' // a model's files are missing, broken or unsupported
  | 'adapter' // no suitable GPU adapter on this machine
  | 'request' // one request cannot be served; others continue
  | 'transfer' // KV did not arrive
  | 'refused' // the KV that a request's kv_transfer_params name is not held for it
  | 'policy' // a routing policy of the user's own failed
  | 'engine_dead' // an engine's thread ended or its device was lost
  | 'internal'; // a bug in kvferry

export class KvferryError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** Invalid user input. The message says what was found, what was wanted and what to do. */
export class ConfigError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('config', message, options);
  }
}

/** A model's files are missing, broken or of an unsupported kind. */
export class ModelError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('model', message, options);
  }
}

/** No adapter, or one that lacks a required feature or limit. */
export class AdapterError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('adapter', message, options);
  }
}

/** One request cannot be served. */
export class RequestError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('request', message, options);
  }
}

/** Another change of the same kind is in progress; the request may succeed once that is done. */
export class ConflictError extends RequestError {}

/** A turn cannot be routed by the requested policy. */
export class RoutingError extends RequestError {}

/** KV blocks did not arrive and could not be recomputed. */
export class TransferError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('transfer', message, options);
  }
}

/** The KV that a request's kv_transfer_params name is not available: params, prompt or salt do not match, or the hold has ended. */
export class RefusedError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('refused', message, options);
  }
}

/** The hold that a request's kv_transfer_params name has expired. */
export class ExpiredError extends RefusedError {}

/** A routing policy of the user's own threw, or returned no valid routing. Only the turn that it was asked for fails. */
export class PolicyError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('policy', message, options);
  }
}

/** The engine's thread ended or its device was lost. */
export class EngineDeadError extends KvferryError {
  /** Why, without the engine's name. */
  readonly reason: string;

  constructor(message: string, { reason = message, ...options }: { cause?: unknown; reason?: string } = {}) {
    super('engine_dead', message, options);
    this.reason = reason;
  }
}

/** An EngineDeadError whose message names the engine and whose reason does not. */
export const engineEnded = (engineId: string, reason: string): EngineDeadError =>
  new EngineDeadError(`engine ${engineId} ended: ${reason}`, { reason });

/** A bug: an invariant of the program was violated. */
export class InternalError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('internal', message, options);
  }
}

const classes = {
  config: ConfigError,
  model: ModelError,
  adapter: AdapterError,
  request: RequestError,
  transfer: TransferError,
  refused: RefusedError,
  policy: PolicyError,
  engine_dead: EngineDeadError,
  internal: InternalError,
} as const;

export interface WireError {
  code: ErrorCode;
  message: string;
  /** EngineDeadError only; else null. */
  reason: string | null;
  stack: string | null;
  cause: WireError | null;
}

export function toWire(error: unknown): WireError {
  const known = error instanceof KvferryError;
  const asError = error instanceof Error ? error : new Error(String(error));
  return {
    code: known ? error.code : 'internal',
    message: asError.message,
    reason: asError instanceof EngineDeadError ? asError.reason : null,
    stack: asError.stack ?? null,
    cause: asError.cause === undefined ? null : toWire(asError.cause),
  };
}

export function fromWire(wire: WireError): KvferryError {
  const options = {
    ...(wire.cause && { cause: fromWire(wire.cause) }),
    ...(wire.reason !== null && { reason: wire.reason }),
  };
  const error = new classes[wire.code](wire.message, options);
  if (wire.stack) error.stack = wire.stack;
  return error;
}

/** Why an engine ended, without its name. */
export const deathReason = (error: unknown): string =>
  error instanceof EngineDeadError ? error.reason : messageOf(error);

/** The message of anything that was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Throws InternalError with the message if the condition is false. */
export function invariant(condition: unknown, message: () => string): asserts condition {
  if (!condition) throw new InternalError(message());
}
