/**
 * One class per kind of blame, each with a stable code. Every class survives a trip between threads
 * (toWire / fromWire), so that a caller sees the same class, code and cause as in the thread that threw; of those that only
 * the main thread throws, the class that they extend.
 */

export type ErrorCode =
  | 'config' // the user asked for something that cannot be: exit code 2, HTTP 400
  | 'model' // a model's files are missing, broken or unsupported
  | 'adapter' // this machine's GPU adapters lack what is needed
  | 'request' // one request cannot be served; others go on
  | 'transfer' // KV did not arrive
  | 'refused' // what a request's kv_transfer_params say is not held for it
  | 'engine_dead' // an engine's thread or device ended
  | 'internal'; // a rule of ours was broken: a bug

export class KvferryError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** What the user asked for cannot be: says what was found, what was wanted and what to do. */
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

/** No adapter, or one without what is needed. */
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

/** Another change of the same kind is under way: what was asked for may be once that is done. */
export class ConflictError extends RequestError {}

/** A turn cannot be routed by the policy that it asks for. */
export class RoutingError extends RequestError {}

/** KV blocks did not arrive and could not be made up for. */
export class TransferError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('transfer', message, options);
  }
}

/** The KV that a request's kv_transfer_params name cannot be had: they, the prompt or its salt are not what is held, or it is held no longer. */
export class RefusedError extends KvferryError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('refused', message, options);
  }
}

/** The engine's thread ended or its device was lost. */
export class EngineDeadError extends KvferryError {
  /** Why, without whose: for where its name stands beside it. */
  readonly reason: string;

  constructor(message: string, { reason = message, ...options }: { cause?: unknown; reason?: string } = {}) {
    super('engine_dead', message, options);
    this.reason = reason;
  }
}

/** An engine's end, named and not. */
export const engineEnded = (name: string, reason: string): EngineDeadError =>
  new EngineDeadError(`${name} ended: ${reason}`, { reason });

/** A rule of the program itself was broken. */
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
  engine_dead: EngineDeadError,
  internal: InternalError,
} as const;

export interface WireError {
  code: ErrorCode;
  message: string;
  /** An EngineDeadError's. */
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

/** What was thrown, in words, whatever it is. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Throws InternalError with the message when the condition does not hold. */
export function invariant(condition: unknown, message: () => string): asserts condition {
  if (!condition) throw new InternalError(message());
}
