/**
 * One generation request, from its checked body to the response: admission, the service, the clock, the format, and the
 * end, whichever comes first: an answer, an error, or a client that goes away.
 */

import { DEFAULT_SAMPLING } from '../engine/sampling.ts';
import type { SamplingParams } from '../engine/types.ts';
import { unguessable } from '../router/request-id.ts';
import type { Admission } from './admission.ts';
import type { Asked } from './bodies.ts';
import type { AnswerHead, Format, Piece } from './formats.ts';
import { asHttpError, errorBody, HttpError } from './http-error.ts';
import { jsonResponse, safeJson } from './json.ts';
import { logprobsOf } from './logprobs.ts';
import type { RequestObserver, RequestRecord } from './observer.ts';
import { ClientGone } from './over.ts';
import type { AnswerEnd, AnswerPiece, GenerationRequest, PortService } from './service.ts';

export interface GenerationDeps {
  service: PortService;
  admission: Admission;
  observer: RequestObserver | null;
  /** What requests that say nothing are sampled with. */
  defaults: Partial<SamplingParams>;
  streamingKvParams: boolean;
  /** Told of each request's end. */
  onEnd: (record: RequestRecord) => void;
  onError: (error: unknown) => void;
}

export interface Incoming {
  asked: Asked;
  /** The client's id of the request. */
  requestId: string;
  /** Told who serves it. */
  onWay: GenerationRequest['onWay'];
  /** Aborts when nobody wants the answer any more, or nobody can have it. */
  over: AbortSignal;
}

/** Rejects with HttpError when the request ends before its first token. */
export async function respond(deps: GenerationDeps, incoming: Incoming, format: Format): Promise<Response> {
  const { asked, requestId, over, onWay } = incoming;
  const { service } = deps;
  const abort = new AbortController();
  const { signal } = abort;
  const id = format.idPrefix + requestId;
  const pieces = timed(deps, asked, id, abort, onWay);
  // Ends the answer whether it is being waited for or stands between two pieces; after its end both do nothing.
  const end = () => {
    abort.abort(over.aborted ? over.reason : new ClientGone());
    void pieces.return().catch(() => {});
  };
  over.addEventListener('abort', end, { once: true });
  if (over.aborted) end();
  const head: AnswerHead = {
    id,
    created: Math.floor(Date.now() / 1000),
    model: asked.model ?? service.model.names[0]!,
    tokenText: (tokenId) => service.text.decode([tokenId]),
    streamingKvParams: deps.streamingKvParams,
  };
  try {
    // Before the first token an error still has a status of its own.
    const first = await pieces.next();
    if (!asked.stream) return await whole(pieces, first, head, asked, format);
    const lines = chunks(deps, pieces, first, head, asked, format);
    return streamed(lines, end);
  } catch (error) {
    throw asHttpError(signal.aborted ? signal.reason : error, asked.promptField);
  }
}

/** Throws HttpError 404. */
export function checkModel(model: string | null, { model: { names } }: PortService): void {
  if (model === null || names.includes(model)) return;
  throw new HttpError(404, `there is no model '${model}' here: wanted ${names.join(' or ')}`, 'model');
}

type Next = IteratorResult<AnswerPiece, void>;

async function whole(
  rest: AsyncGenerator<AnswerPiece>,
  first: Next,
  head: AnswerHead,
  asked: Asked,
  format: Format,
): Promise<Response> {
  const pieces: Piece[] = [];
  let end: AnswerEnd | null = null;
  for (let next = first; !next.done; next = await rest.next()) {
    pieces.push(shaped(next.value, asked));
    end = next.value.final;
  }
  if (!end) throw new HttpError(500, 'the answer ended without an end');
  return jsonResponse(format.whole(head, pieces, end));
}

const DONE = 'data: [DONE]\n\n';
const line = (value: unknown): string => `data: ${safeJson(value)}\n\n`;

async function* chunks(
  deps: GenerationDeps,
  rest: AsyncGenerator<AnswerPiece>,
  first: Next,
  head: AnswerHead,
  asked: Asked,
  format: Format,
): AsyncGenerator<string> {
  let end: AnswerEnd | null = null;
  let count = 0;
  let length = 0;
  try {
    for (const opening of format.opening(head)) yield line(opening);
    for (let next = first; !next.done; next = await rest.next()) {
      const piece = shaped(next.value, asked);
      count++;
      end = piece.final;
      // A token without text of its own says nothing to a reader of text.
      if (piece.text !== '' || end || piece.logprobs || asked.prompt.kind === 'tokens')
        yield line(format.chunk(head, piece, length));
      length += piece.text.length;
    }
    if (!end) throw new HttpError(500, 'the answer ended without an end');
    if (asked.includeUsage) yield line(format.usageChunk(head, count, end));
  } catch (error) {
    const known = asHttpError(error);
    if (known.status === 500) deps.onError(error);
    yield line(errorBody(known));
  } finally {
    await rest.return(undefined);
  }
  yield DONE;
}

function shaped({ tokenId, text, logits, final }: AnswerPiece, { topLogprobs }: Asked): Piece {
  const logprobs = topLogprobs !== null && logits ? logprobsOf(logits, tokenId, topLogprobs) : null;
  return { tokenId, text, logprobs, final };
}

/** Reads on only as fast as the client does. */
function streamed(lines: AsyncGenerator<string>, end: () => void): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await lines.next();
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    cancel: end,
  });
  return new Response(body, {
    headers: {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-cache',
      'X-Accel-Buffering': 'no',
    },
  });
}

/** The service's pieces, counted and timed, with a place in the queue until the last. */
async function* timed(
  deps: GenerationDeps,
  asked: Asked,
  id: string,
  abort: AbortController,
  onWay: GenerationRequest['onWay'],
): AsyncGenerator<AnswerPiece, void> {
  const { service, observer } = deps;
  const { signal } = abort;
  const leave = deps.admission.enter(abort);
  const accepted = now();
  const sampling = {
    ...DEFAULT_SAMPLING,
    ...deps.defaults,
    ...asked.sampling,
    ...(asked.maxTokens === null ? {} : { maxTokens: asked.maxTokens }),
    keepLogits: asked.topLogprobs !== null,
  };
  let valid = false;
  let firstMs: number | null = null;
  let lastMs = accepted;
  let outputTokens = 0;
  let last: AnswerPiece | null = null;
  let failure: unknown = null;
  try {
    const pieces = service.generate({
      ...asked,
      requestId: unguessable(id),
      sampling,
      signal,
      onWay,
      onPrompt: (tokenIds) => {
        checkPrompt(tokenIds, asked, sampling, service);
        valid = true;
      },
    });
    for await (const piece of pieces) {
      observer?.token(firstMs === null ? null : piece.atMs - lastMs);
      firstMs ??= piece.atMs;
      lastMs = piece.atMs;
      outputTokens++;
      last = piece;
      yield piece;
    }
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    leave();
    if (valid) {
      const record: RequestRecord = {
        requestId: id,
        firstTokenMs: firstMs === null ? null : firstMs - accepted,
        decodeMs: firstMs === null || outputTokens < 2 ? null : lastMs - firstMs,
        latencyMs: now() - accepted,
        outputTokens,
        prompt: last?.final?.prompt ?? null,
        reason: last?.final?.finishReason ?? (signal.aborted || !failure ? 'abort' : 'error'),
        maxTokens: sampling.maxTokens,
      };
      observer?.finished(record);
      deps.onEnd(record);
    }
  }
}

const now = (): number => performance.timeOrigin + performance.now();

/** Throws HttpError 400 that names the field. */
function checkPrompt(
  tokenIds: readonly number[],
  asked: Asked,
  sampling: SamplingParams,
  { model: { maxModelLen, vocabSize } }: PortService,
): void {
  const field = asked.promptField;
  const refuse = (message: string, param: string): never => {
    throw new HttpError(400, message, param);
  };
  if (tokenIds.length === 0) refuse(`${field} has no tokens: give at least one`, field);
  const foreign = tokenIds.find((id) => id >= vocabSize);
  if (foreign !== undefined)
    refuse(`${field} holds token id ${foreign}: the vocabulary has ${vocabSize}`, field);
  const stop = sampling.stopTokenIds.find((id) => id >= vocabSize);
  if (stop !== undefined)
    refuse(`stop_token_ids holds ${stop}: the vocabulary has ${vocabSize}`, 'stop_token_ids');
  if (tokenIds.length + 1 > maxModelLen) {
    refuse(
      `${field} has ${tokenIds.length} tokens: the model's context of ${maxModelLen} must hold one more; shorten it`,
      field,
    );
  }
  if (asked.maxTokens !== null && tokenIds.length + asked.maxTokens > maxModelLen) {
    refuse(
      `${asked.maxTokensField} is ${asked.maxTokens} and the prompt has ${tokenIds.length} tokens: together at most ${maxModelLen}`,
      asked.maxTokensField,
    );
  }
  if (sampling.minTokens > sampling.maxTokens) {
    refuse(
      `min_tokens is ${sampling.minTokens}, more than the ${sampling.maxTokens} tokens allowed: lower it, or raise ${asked.maxTokensField}`,
      'min_tokens',
    );
  }
}
