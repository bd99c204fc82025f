/**
 * One turn: P prefills (pulling from D what D has), D takes over and streams. The sequence is that of vLLM's
 * disagg_proxy_multiturn.py; P's one sampled token is discarded, D samples it again.
 */
import type { KvTransferParams, PullPolicyName } from '../config/kv-transfer.ts';
import type { EngineRequest, PromptAccount, RequestOutput, SamplingParams } from '../engine/types.ts';
import { InternalError, TransferError } from '../errors.ts';
import type { EngineHandle, RouterWork } from '../fleet/engine-handle.ts';
import type { TimedOutput } from './output-stream.ts';

export interface Turn {
  requestId: string;
  promptTokenIds: readonly number[];
  sampling: SamplingParams;
  cacheSalt: string | null;
  /** D's parameters of the last turn; null when nothing can be pulled. */
  remote: KvTransferParams | null;
  /** In place of P's own policy for D's blocks. */
  pull: PullPolicyName | null;
  /** Ends the turn at once, with the signal's reason. */
  signal: AbortSignal | null;
  /** Ends the answer where it is, as a stop token would. */
  stopped: AbortSignal | null;
}

/** Times are on the shared clock, milliseconds. */
export interface TurnTrace {
  acceptedMs: number;
  prefillDoneMs: number | null;
  prefillAccount: PromptAccount | null;
  /** Tokens of the prompt that D found in its own cache; 0 until D began. */
  decodeHitTokens: number;
  /** kv_transfer_params that D returned with its last token. */
  decodeParams: KvTransferParams | null;
}

/** A turn's request at P, at D; the request of one engine that does both keeps the turn's own id. */
export const prefillRequestId = (turnId: string): string => `${turnId}-p`;
export const decodeRequestId = (turnId: string): string => `${turnId}-d`;

const MISS: KvTransferParams = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
};

/** Both in one engine. */
export async function* monolithicTurn(
  engine: EngineHandle,
  turn: Turn,
  trace: TurnTrace,
): AsyncGenerator<TimedOutput> {
  const alone = request(turn, turn.requestId, turn.sampling, null);
  const work = { name: 'accept', sinceMs: trace.acceptedMs } as const;
  for await (const timed of engineOutputs(engine, alone, { ...turn, work })) {
    trace.prefillAccount ??= timed.output.prompt;
    yield timed;
  }
}

/** P, then D. `prefillDoneMs` is set when P handed over. */
export async function* disaggregatedTurn(
  prefill: EngineHandle,
  decode: EngineHandle,
  turn: Turn,
  trace: TurnTrace,
): AsyncGenerator<TimedOutput> {
  const handover = await prefilled(prefill, turn, trace, {});
  let taken = false;
  try {
    const decodeRequest = request(turn, decodeRequestId(turn.requestId), turn.sampling, handover);
    const work = { name: 'hand over', sinceMs: trace.prefillDoneMs ?? trace.acceptedMs } as const;
    for await (const timed of engineOutputs(decode, decodeRequest, { ...turn, work })) {
      taken = true;
      noteDecoded(trace, timed.output);
      yield timed;
    }
  } finally {
    // D never began: nobody else would tell P that its blocks are free.
    if (!taken) await releasePrefilled(prefill, turn);
  }
}

/**
 * P and D at once: D reads the prompt's blocks as P computes them. kvferry's own; vLLM's router asks D when P is done.
 * Whichever fails ends the other, and P's failure is the one that is told.
 */
export async function* streamedTurn(
  prefill: EngineHandle,
  decode: EngineHandle,
  turn: Turn,
  trace: TurnTrace,
): AsyncGenerator<TimedOutput> {
  const halves = new AbortController();
  const signal = turn.signal ? AbortSignal.any([turn.signal, halves.signal]) : halves.signal;
  const prefilling = prefilled(prefill, { ...turn, signal }, trace, { streamed: true });
  prefilling.catch((error: unknown) => halves.abort(error));
  let taken = false;
  try {
    const decodeId = decodeRequestId(turn.requestId);
    const decodeRequest = request(turn, decodeId, turn.sampling, toBePrefilled(prefill, turn));
    const work = { name: 'accept', sinceMs: trace.acceptedMs } as const;
    for await (const timed of engineOutputs(decode, decodeRequest, { ...turn, signal, work })) {
      // D's news may come before P's.
      await prefilling;
      taken = true;
      noteDecoded(trace, timed.output);
      yield timed;
    }
  } catch (error) {
    halves.abort(error);
    throw error;
  } finally {
    if (!taken) {
      halves.abort(new InternalError(`${turn.requestId} ended before its first token`));
      await prefilling.catch(() => {});
      await releasePrefilled(prefill, turn);
    }
  }
}

/** P's half; what it hands over. */
async function prefilled(
  prefill: EngineHandle,
  turn: Turn,
  trace: TurnTrace,
  more: Partial<KvTransferParams>,
): Promise<KvTransferParams> {
  const params: KvTransferParams = turn.remote
    ? { ...turn.remote, do_remote_decode: true, do_remote_prefill: false, pull_policy: turn.pull }
    : MISS;
  const once = { ...turn.sampling, maxTokens: 1, minTokens: 0, keepLogits: false };
  const prefillId = prefillRequestId(turn.requestId);
  let handover: KvTransferParams | null = null;
  const prefillRequest = request(turn, prefillId, once, { ...params, ...more });
  const accepting = { name: 'accept', sinceMs: trace.acceptedMs } as const;
  const whole = { ...turn, stopped: null, work: accepting };
  for await (const { output, atMs } of engineOutputs(prefill, prefillRequest, whole)) {
    if (!output.finish) continue;
    trace.prefillDoneMs = atMs;
    trace.prefillAccount = output.prompt;
    handover = output.finish.kvTransferParams;
  }
  if (!handover)
    throw new InternalError(`${prefill.engineId} finished ${prefillId} without kv_transfer_params`);
  return handover;
}

/** For D, before P has begun: whose sequence to read. */
function toBePrefilled({ address }: EngineHandle, turn: Turn): KvTransferParams {
  return {
    do_remote_decode: false,
    do_remote_prefill: true,
    remote_block_ids: null,
    remote_engine_id: address.engineId,
    remote_request_id: prefillRequestId(turn.requestId),
    remote_host: address.host,
    remote_port: address.port,
    streamed: true,
  };
}

function noteDecoded(trace: TurnTrace, { prompt, finish }: RequestOutput): void {
  trace.decodeHitTokens = prompt?.localHitTokens ?? trace.decodeHitTokens;
  trace.decodeParams = finish?.kvTransferParams ?? null;
}

async function releasePrefilled(prefill: EngineHandle, turn: Turn): Promise<void> {
  if (prefill.dead) return;
  await prefill.call((api) => api.releaseHolds([prefillRequestId(turn.requestId)])).catch(() => {});
}

function request(
  turn: Turn,
  requestId: string,
  sampling: SamplingParams,
  kvTransferParams: KvTransferParams | null,
): EngineRequest {
  return {
    requestId,
    promptTokenIds: turn.promptTokenIds,
    sampling,
    kvTransferParams,
    cacheSalt: turn.cacheSalt,
  };
}

export interface TurnSignals {
  /** Aborts. */
  signal: AbortSignal | null;
  /** Ends the answer as a stop token would. */
  stopped: AbortSignal | null;
  /** What the router has done for it so far, for a span. */
  work?: RouterWork;
}

/**
 * One request at one engine. Aborted there at once when the signal says so, and when the reader stops early or anything
 * fails. Throws RequestError when the engine refuses it, TransferError when KV did not arrive.
 */
export async function* engineOutputs(
  engine: EngineHandle,
  engineRequest: EngineRequest,
  { signal, stopped, work }: TurnSignals,
): AsyncGenerator<TimedOutput> {
  signal?.throwIfAborted();
  const stream = await engine.submit(engineRequest, work);
  const { requestId } = engineRequest;
  const onAbort = () => stream.interrupt(signal?.reason);
  const onStop = () => void engine.stop(requestId);
  signal?.addEventListener('abort', onAbort);
  stopped?.addEventListener('abort', onStop);
  if (signal?.aborted) onAbort();
  let ended = false;
  try {
    for await (const timed of stream) {
      ended = timed.output.finish !== null;
      throwIfFailed(engine, timed.output);
      yield timed;
    }
  } finally {
    signal?.removeEventListener('abort', onAbort);
    stopped?.removeEventListener('abort', onStop);
    if (!ended) await engine.abort(requestId);
  }
}

function throwIfFailed(engine: EngineHandle, output: RequestOutput): void {
  if (output.finish?.reason === 'error') {
    throw new TransferError(`${engine.engineId}: ${output.finish.error ?? 'the request failed'}`);
  }
}
