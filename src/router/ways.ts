/**
 * The ways of a turn through the engines, as a plan says: one engine alone; P (pulling from D what D has), then D; or both
 * at once. The sequence is that of vLLM's disagg_proxy_multiturn.py; P's one sampled token is discarded, D samples it
 * again. What P and D give comes out of one stream, so whoever serves turns, or only looks at them, does it by one code.
 */

import type { KvTransferParams, PullPolicyName } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { EngineRequest, RequestOutput, SamplingParams } from '../engine/types.ts';
import { InternalError, RefusedError, TransferError } from '../errors.ts';
import type { TurnSide } from '../measure/spans.ts';
import type { TransferResult } from '../transport/types.ts';
import type { EngineClient, RouterWork } from './engine-client.ts';
import type { OutputStream, TimedOutput } from './output-stream.ts';

export interface Turn {
  /** At the engines: of P's request, or that of the only engine; and of D's. Unguessable, and never used again. */
  requestIds: Readonly<Record<TurnSide, string>>;
  promptTokenIds: TokenIds;
  sampling: SamplingParams;
  cacheSalt: string | null;
  /** When the router accepted it, on the shared clock. */
  acceptedMs: number;
  /** D's parameters of the last turn; null when nothing can be pulled. */
  remote: KvTransferParams | null;
  /** In place of P's own policy for D's blocks. */
  pull: PullPolicyName | null;
  /** Ends the turn at once, with the signal's reason. */
  signal: AbortSignal | null;
  /** Ends the answer where it is, as a stop token would. */
  stopped: AbortSignal | null;
}

/** Engines of a plan. */
export type Way =
  | { way: 'alone'; engine: EngineClient }
  | { way: 'pull' | 'streamed'; prefill: EngineClient; decode: EngineClient };

/** Of a hand-over: P's end, without its token; then D's outputs. Of one engine alone: its outputs. */
export interface TurnOutput extends TimedOutput {
  side: TurnSide;
  /** What follows belongs to the answer. */
  answers: boolean;
  /** READs of this side's request, so far: from an engine, and from a store. */
  transfers: readonly TransferResult[];
  loads: readonly TransferResult[];
}

/**
 * Serves the turn. Whatever ends the reading early (a return, a failure, the signal) ends the turn at its engines, and
 * frees what they held for each other. Throws RequestError, TransferError, EngineDeadError, or the signal's reason.
 */
export function turnOutputs(way: Way, turn: Turn): AsyncGenerator<TurnOutput> {
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
  for await (const told of requestOutputs(engine, request, turn, accepted(turn)))
    yield outputOf('prefill', true, told);
}

/** P, then D: vLLM's way. */
async function* pulled(prefill: EngineClient, decode: EngineClient, turn: Turn): AsyncGenerator<TurnOutput> {
  const done = await prefilled(prefill, turn, false);
  let taken = false;
  try {
    yield done;
    const { kvTransferParams } = done.output.finish!;
    const request = requestOf(turn, 'decode', turn.sampling, kvTransferParams);
    const work = { name: 'hand over', sinceMs: done.atMs } as const;
    for await (const told of requestOutputs(decode, request, turn, work)) {
      taken = true;
      yield outputOf('decode', true, told);
    }
  } finally {
    // D never began: nobody else would tell P that its blocks are free.
    if (!taken) unawaited(prefill.release([turn.requestIds.prefill]));
  }
}

/**
 * P and D at once: D reads the prompt's blocks as P computes them. kvferry's own; vLLM's router asks D when P is done.
 * Whichever fails ends the other, and P's failure is the one that is told.
 */
async function* streamed(
  prefill: EngineClient,
  decode: EngineClient,
  turn: Turn,
): AsyncGenerator<TurnOutput> {
  const halves = new AbortController();
  const signal = turn.signal ? AbortSignal.any([turn.signal, halves.signal]) : halves.signal;
  const prefilling = prefilled(prefill, { ...turn, signal }, true);
  prefilling.catch((error: unknown) => halves.abort(error));
  let taken = false;
  try {
    const request = requestOf(turn, 'decode', turn.sampling, toBePrefilled(prefill, turn));
    for await (const told of requestOutputs(decode, request, { ...turn, signal }, accepted(turn))) {
      // D's news may come before P's.
      const done = await prefilling;
      if (!taken) yield done;
      taken = true;
      yield outputOf('decode', true, told);
    }
  } catch (error) {
    halves.abort(error);
    throw error;
  } finally {
    if (!taken) {
      halves.abort(new InternalError(`${turn.requestIds.decode} ended before its first token`));
      await prefilling.catch(() => {});
      unawaited(prefill.release([turn.requestIds.prefill]));
    }
  }
}

/** P's half: its end, which names what it hands over. */
async function prefilled(prefill: EngineClient, turn: Turn, streamed: boolean): Promise<TurnOutput> {
  const role = { do_remote_decode: true, do_remote_prefill: false, pull_policy: turn.pull };
  const params: KvTransferParams = Object.assign({}, turn.remote, role);
  if (streamed) params.streamed = true;
  const onlyFirst = { maxTokens: 1, minTokens: 0, keepLogits: false };
  const once: SamplingParams = Object.assign({}, turn.sampling, onlyFirst);
  const request = requestOf(turn, 'prefill', once, params);
  const ends = { signal: turn.signal, stopped: null };
  for await (const told of requestOutputs(prefill, request, ends, accepted(turn))) {
    if (told.output.finish?.kvTransferParams) return outputOf('prefill', false, told);
  }
  throw new InternalError(`${prefill.engineId} finished ${request.requestId} without kv_transfer_params`);
}

/** For D, before P has begun: whose sequence to read. */
function toBePrefilled({ address }: EngineClient, { requestIds }: Turn): KvTransferParams {
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

type RequestTold = Pick<TurnOutput, 'output' | 'atMs' | 'transfers' | 'loads'>;

const outputOf = (
  side: TurnSide,
  answers: boolean,
  { output, atMs, transfers, loads }: RequestTold,
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
 * One request at one engine. Aborted there at once when the signal says so, and when the reader stops early or anything
 * fails. Throws RequestError when the engine refuses it, TransferError when KV did not arrive, RefusedError when its
 * holder refused it.
 */
export async function* requestOutputs(
  engine: EngineClient,
  request: EngineRequest,
  { signal, stopped }: Pick<Turn, 'signal' | 'stopped'>,
  work?: RouterWork,
): AsyncGenerator<RequestTold> {
  signal?.throwIfAborted();
  const stream = await submitted(engine, request, signal, work);
  const { requestId } = request;
  const onAbort = () => stream.interrupt(signal?.reason);
  const onStop = () => void engine.stop(requestId);
  signal?.addEventListener('abort', onAbort);
  stopped?.addEventListener('abort', onStop);
  if (signal?.aborted) onAbort();
  if (stopped?.aborted) onStop();
  let ended = false;
  try {
    for await (const { output, atMs } of stream) {
      ended = output.finish !== null;
      throwIfFailed(engine, output);
      yield { output, atMs, transfers: stream.transfers, loads: stream.loads };
    }
  } finally {
    signal?.removeEventListener('abort', onAbort);
    stopped?.removeEventListener('abort', onStop);
    if (!ended) giveUp(engine, requestId);
  }
}

/** Its end may be on its way, or unread: nobody else will learn what it left. */
function giveUp(engine: EngineClient, requestId: string): void {
  unawaited(engine.abort(requestId).then(() => engine.release([requestId])));
}

/** Whoever leaves waits for no engine: its thread may be stuck. One that ended has nothing left to give up. */
function unawaited(told: Promise<void>): void {
  told.catch(() => {});
}

/** An engine that does not answer keeps nobody who leaves: what it takes all the same is aborted there. */
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
        if (signal.aborted) giveUp(engine, requestId);
        else resolve(stream);
      }, reject)
      .finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function throwIfFailed(engine: EngineClient, output: RequestOutput): void {
  if (output.finish?.reason !== 'error') return;
  const { code = 'transfer', message = 'the request failed' } = output.finish.error ?? {};
  const kinds = { refused: RefusedError, transfer: TransferError, internal: InternalError };
  const ErrorOfKind = kinds[code];
  throw new ErrorOfKind(`${engine.engineId}: ${message}`);
}
