/**
 * Carries out a plan at the engines: one engine alone; P (which pulls from D what D has), then D; or both at once.
 * The sequence is that of vLLM's disagg_proxy_multiturn.py: the one token that P samples is discarded, and D samples
 * it again. The outputs of P and D come as one stream, so the router, `verify` and the tests serve turns with the
 * same code.
 */

import type { KvTransferParams, PullPolicyName } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { EngineRequest, RequestOutput, SamplingParams } from '../engine/types.ts';
import { ExpiredError, InternalError, RefusedError, TransferError } from '../errors.ts';
import type { TurnSide } from '../measure/spans/spans.ts';
import type { TransferResult } from '../transport/types.ts';
import type { EngineClient, RouterWork } from './engine-client.ts';
import type { OutputStream, TimedOutput } from './output-stream.ts';

export interface Turn {
  /**
   * Ids at the engines: `prefill` for the request of P or of the only engine, `decode` for D's. Unguessable and never
   * reused.
   */
  requestIds: Readonly<Record<TurnSide, string>>;
  promptTokenIds: TokenIds;
  sampling: SamplingParams;
  cacheSalt: string | null;
  /** The router's acceptance, in milliseconds on the shared clock. */
  acceptedMs: number;
  /** D's parameters of the last turn; null if nothing can be pulled. */
  remote: KvTransferParams | null;
  /** Replaces P's own policy for pulling D's blocks; null: P's own. */
  pull: PullPolicyName | null;
  /** Aborts the turn at once, with the signal's reason. */
  signal: AbortSignal | null;
  /** Ends the answer where it is, as a stop token would. */
  stopped: AbortSignal | null;
  /** Called as a request is submitted to an engine. */
  onSubmit?: ((engineId: string) => void) | undefined;
}

/** A plan with its engines. */
export type PlannedEngines =
  | { way: 'alone'; engine: EngineClient }
  | { way: 'pull' | 'streamed'; prefill: EngineClient; decode: EngineClient };

/** In a handover: P's last output, without its token, then D's outputs. With one engine: its outputs. */
export interface TurnOutput extends TimedOutput {
  side: TurnSide;
  /** Whether its tokens belong to the answer. */
  answers: boolean;
  /** READs of this side's request so far: `transfers` from an engine, `loads` from a store. */
  transfers: readonly TransferResult[];
  loads: readonly TransferResult[];
}

/**
 * Serves the turn. If reading ends early (a return, an error, the signal), the turn is aborted at its engines, and
 * they free what they held for each other. Throws RequestError, RefusedError, TransferError, EngineDeadError,
 * InternalError, or the signal's reason.
 */
export function turnOutputs(way: PlannedEngines, turn: Turn): AsyncGenerator<TurnOutput> {
  switch (way.way) {
    case 'alone':
      return alone(way.engine, turn);
    case 'pull':
      return pulled(way.prefill, way.decode, turn);
    case 'streamed':
      return streamed(way.prefill, way.decode, turn);
  }
}

async function* alone(engine: EngineClient, turn: Turn): AsyncGenerator<TurnOutput> {
  const request = requestOf(turn, 'prefill', turn.sampling, null);
  for await (const received of requestOutputs(engine, request, turn, accepted(turn)))
    yield outputOf('prefill', true, received);
}

/** P, then D, as vLLM's router does. */
async function* pulled(prefill: EngineClient, decode: EngineClient, turn: Turn): AsyncGenerator<TurnOutput> {
  const done = await prefilled(prefill, turn, false);
  let decodeStarted = false;
  try {
    yield done;
    const { kvTransferParams } = done.output.finish!;
    const request = requestOf(turn, 'decode', turn.sampling, kvTransferParams);
    const work = { name: 'hand over', sinceMs: done.atMs } as const;
    for await (const received of requestOutputs(decode, request, turn, work)) {
      decodeStarted = true;
      yield outputOf('decode', true, received);
    }
  } finally {
    // D never began, so nobody else would tell P to free its blocks.
    if (!decodeStarted) ignoreFailure(prefill.release([turn.requestIds.prefill]));
  }
}

/**
 * P and D at once: D reads the prompt's blocks while P computes them. This is kvferry's own; vLLM's router asks D
 * when P is done. If one fails, the other is aborted, and P's error is the one thrown.
 */
async function* streamed(
  prefill: EngineClient,
  decode: EngineClient,
  turn: Turn,
): AsyncGenerator<TurnOutput> {
  const abortBoth = new AbortController();
  const signal = turn.signal ? AbortSignal.any([turn.signal, abortBoth.signal]) : abortBoth.signal;
  const prefilling = prefilled(prefill, { ...turn, signal }, true);
  prefilling.catch((error: unknown) => abortBoth.abort(error));
  let decodeStarted = false;
  try {
    const request = requestOf(turn, 'decode', turn.sampling, streamedParams(prefill, turn));
    for await (const received of requestOutputs(decode, request, { ...turn, signal }, accepted(turn))) {
      // D's output may come before P's.
      const done = await prefilling;
      if (!decodeStarted) yield done;
      decodeStarted = true;
      yield outputOf('decode', true, received);
    }
  } catch (error) {
    abortBoth.abort(error);
    throw error;
  } finally {
    if (!decodeStarted) {
      abortBoth.abort(new InternalError(`${turn.requestIds.decode} ended before its first token`));
      await prefilling.catch(() => {});
      ignoreFailure(prefill.release([turn.requestIds.prefill]));
    }
  }
}

/** Runs P's request to its end, whose parameters name the hold for D. */
async function prefilled(prefill: EngineClient, turn: Turn, streamed: boolean): Promise<TurnOutput> {
  const role = { do_remote_decode: true, do_remote_prefill: false, pull_policy: turn.pull };
  const params: KvTransferParams = Object.assign({}, turn.remote, role);
  if (streamed) params.streamed = true;
  const limits = { maxTokens: 1, minTokens: 0, keepLogits: false };
  const firstTokenOnly: SamplingParams = Object.assign({}, turn.sampling, limits);
  const request = requestOf(turn, 'prefill', firstTokenOnly, params);
  const signals = { signal: turn.signal, stopped: null, onSubmit: turn.onSubmit };
  for await (const received of requestOutputs(prefill, request, signals, accepted(turn))) {
    if (received.output.finish?.kvTransferParams) return outputOf('prefill', false, received);
  }
  throw new InternalError(`${prefill.engineId} finished ${request.requestId} without kv_transfer_params`);
}

/** Parameters for D before P has begun: they name the sequence to read. */
function streamedParams({ address }: EngineClient, { requestIds }: Turn): KvTransferParams {
  return {
    do_remote_decode: false,
    do_remote_prefill: true,
    remote_block_ids: null,
    remote_engine_id: address.engineId,
    remote_request_id: requestIds.prefill,
    remote_host: address.host,
    remote_port: address.port,
    streamed: true,
  };
}

type ReceivedOutput = Pick<TurnOutput, 'output' | 'atMs' | 'transfers' | 'loads'>;

const outputOf = (
  side: TurnSide,
  answers: boolean,
  { output, atMs, transfers, loads }: ReceivedOutput,
): TurnOutput => ({ side, answers, output, atMs, transfers, loads });

const accepted = ({ acceptedMs }: Turn): RouterWork => ({ name: 'accept', sinceMs: acceptedMs });

function requestOf(
  { requestIds, promptTokenIds, cacheSalt }: Turn,
  side: TurnSide,
  sampling: SamplingParams,
  kvTransferParams: KvTransferParams | null,
): EngineRequest {
  return { requestId: requestIds[side], promptTokenIds, sampling, kvTransferParams, cacheSalt };
}

/**
 * One request at one engine. Aborted there if the signal fires, if the reader stops early, or if anything fails.
 * Throws RequestError if the engine refuses it, TransferError if KV did not arrive, RefusedError if the holder
 * refused to send it (ExpiredError if it has expired), InternalError for an engine's internal error.
 */
export async function* requestOutputs(
  engine: EngineClient,
  request: EngineRequest,
  { signal, stopped, onSubmit }: Pick<Turn, 'signal' | 'stopped' | 'onSubmit'>,
  work?: RouterWork,
): AsyncGenerator<ReceivedOutput> {
  signal?.throwIfAborted();
  onSubmit?.(engine.engineId);
  const stream = await submitted(engine, request, signal, work);
  const { requestId } = request;
  const onAbort = () => stream.interrupt(signal?.reason);
  const onStop = () => void engine.stop(requestId);
  signal?.addEventListener('abort', onAbort);
  stopped?.addEventListener('abort', onStop);
  if (signal?.aborted) onAbort();
  // An earlier attempt reached the end of the answer. The prompt's account comes with the first token, so wait for that.
  let stopsAtFirst = stopped?.aborted ?? false;
  let ended = false;
  try {
    for await (const { output, atMs } of stream) {
      ended = output.finish !== null;
      throwIfFailed(engine, output);
      if (stopsAtFirst && !ended) onStop();
      stopsAtFirst = false;
      yield { output, atMs, transfers: stream.transfers, loads: stream.loads };
    }
  } finally {
    signal?.removeEventListener('abort', onAbort);
    stopped?.removeEventListener('abort', onStop);
    if (!ended) abandon(engine, requestId);
  }
}

/** Its last output may be on its way or unread, so nobody else will release what it left. */
function abandon(engine: EngineClient, requestId: string): void {
  ignoreFailure(engine.abort(requestId).then(() => engine.release([requestId])));
}

/**
 * Callers that give up do not wait for the engine: its thread may be stuck, and an engine that has ended has nothing
 * to free.
 */
function ignoreFailure(received: Promise<void>): void {
  received.catch(() => {});
}

/**
 * Submits without making an aborted caller wait for the engine. If the engine accepts the request after that, it is
 * aborted there.
 */
function submitted(
  engine: EngineClient,
  request: EngineRequest,
  signal: AbortSignal | null,
  work?: RouterWork,
): Promise<OutputStream> {
  if (!signal) return engine.submit(request, work);
  return new Promise((resolve, reject) => {
    const { requestId } = request;
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    engine
      .submit(request, work)
      .then((stream) => {
        if (signal.aborted) abandon(engine, requestId);
        else resolve(stream);
      }, reject)
      .finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function throwIfFailed(engine: EngineClient, output: RequestOutput): void {
  if (output.finish?.reason !== 'error') return;
  const { code = 'transfer', message = 'the request failed' } = output.finish.error ?? {};
  // An expired hold counts as a bad request, like one that never existed: the client named it.
  const kinds = {
    expired: ExpiredError,
    refused: RefusedError,
    transfer: TransferError,
    internal: InternalError,
  };
  const ErrorOfKind = kinds[code];
  throw new ErrorOfKind(`${engine.engineId}: ${message}`);
}
