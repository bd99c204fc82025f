/**
 * Serves one generation request, from its checked body to the response: admission, generation, timing and the record at its
 * end. A request ends with its answers, an error, or its client's disconnect, whichever comes first.
 */
import { setMaxListeners } from 'node:events';
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import type { SamplingParams } from '../../engine/types.ts';
import { systemClock } from '../../platform/clock.ts';
import { orAborted } from '../../router/or-aborted.ts';
import { unguessable } from '../../router/request-id.ts';
import type { Admission } from '../http/admission.ts';
import { asHttpError, HttpError, isRetryLater } from '../http/http-error.ts';
import { ClientGone } from '../http/request-signal.ts';
import type { RequestObserver, RequestRecord } from '../observer.ts';
import type { AnswerEnd, GenerationRequest, PortService } from '../service.ts';
import { badWordsTokenIds } from './bad-words.ts';
import type { ParsedRequest } from './bodies.ts';
import { type Choice, choicesOf } from './choices.ts';
import type { AnswerHead, Format } from './formats.ts';
import { logprobsOf } from './logprobs.ts';
import { mergeStreams } from './merge-streams.ts';
import { checkPrompt } from './prompt-check.ts';
import { type ChoicePiece, completeResponse, streamed } from './responses.ts';
import { TOKENS_BEFORE, tokenShown } from './token-shown.ts';

export interface GenerationDeps {
  service: PortService;
  admission: Admission;
  observer: RequestObserver;
  /** Sampling parameters for requests that do not set them. */
  defaults: Partial<SamplingParams>;
  streamingKvParams: boolean;
  /** Called at each answer's end. */
  onEnd: (record: RequestRecord) => void;
  onError: (error: unknown) => void;
}

export interface Incoming {
  parsed: ParsedRequest;
  /** The request's id: the client's, or a generated one. */
  requestId: string;
  /** Called with the engines that serve the first answer. */
  onEngines: GenerationRequest['onEngines'];
  /** Aborts when the client has disconnected or the response cannot be sent. */
  requestEnded: AbortSignal;
  /** Whether `requestEnded` also aborts once the client has received the whole response. */
  endsWhenSent: boolean;
}

/** Rejects with HttpError when the request ends before its first token. */
export async function respond(deps: GenerationDeps, incoming: Incoming, format: Format): Promise<Response> {
  const { parsed, requestId, requestEnded, endsWhenSent, onEngines } = incoming;
  const { service, admission } = deps;
  if (requestEnded.aborted) throw asHttpError(requestEnded.reason);
  const id = format.idPrefix + requestId;
  const choices = choicesOf(parsed, samplingOf(deps, parsed), id, admission.most);
  const abort = new AbortController();
  const { signal } = abort;
  // Each answer adds listeners.
  setMaxListeners(0, signal);
  const prompts = new Prompts(parsed.prompts.length);
  const leavePort = admission.enter(abort, choices.length);
  let leave = leavePort;
  const received = new Promise<void>((resolve) => {
    leave = () => {
      leavePort();
      resolve();
    };
  });
  deps.observer.requested({ n: parsed.n, maxTokens: choices[0]!.sampling.maxTokens });
  const badWords = badWordsTokenIds(parsed.badWords, service.text, signal);
  // Each answer awaits it; this handles a rejection when no answer has started.
  badWords.catch(() => {});
  const shared = { prompts, badWords, signal, received, onEngines };
  const pieces = mergeStreams(
    choices.length,
    (index) => pieceByPiece(deps, parsed, choices[index]!, shared),
    (reason) => abort.abort(reason),
  );
  const answers = untilEnd(pieces, () => {
    // A slow client keeps its place until it has received the response, so finished responses cannot pile up.
    if (endsWhenSent && !requestEnded.aborted) requestEnded.addEventListener('abort', leave, { once: true });
    else leave();
  });
  // Works while the next piece is awaited (abort) and between two pieces (return); does nothing after the end.
  const end = () => {
    abort.abort(requestEnded.aborted ? requestEnded.reason : new ClientGone());
    void answers.return().catch(() => {});
  };
  requestEnded.addEventListener('abort', end, { once: true });
  const head: AnswerHead = {
    id,
    created: Math.floor(Date.now() / 1000),
    model: parsed.model ?? service.model.names[0]!,
    showToken: tokenShown(service.text),
    streamingKvParams: deps.streamingKvParams,
  };
  try {
    // Errors before the first token, or in any prompt, still get their own HTTP status.
    const first = await answers.next();
    await orAborted(signal, prompts.known);
    const answer = { parsed, choices, prompts: prompts.tokenIds, head, format, onError: deps.onError };
    if (parsed.stream) return streamed(answers, first, answer, end);
    return await completeResponse(answers, first, answer);
  } catch (error) {
    const reason = signal.aborted ? signal.reason : error;
    end();
    throw asHttpError(reason, parsed.promptField);
  }
}

function samplingOf({ defaults }: GenerationDeps, parsed: ParsedRequest): SamplingParams {
  return {
    ...DEFAULT_SAMPLING,
    ...defaults,
    ...parsed.sampling,
    ...(parsed.maxTokens === null ? {} : { maxTokens: parsed.maxTokens }),
    keepLogits: parsed.topLogprobs !== null,
  };
}

/** Characters of a model's name. */
const LONGEST_SHOWN = 200;

/** Checks that the port serves the model; null: not given, accepted. Throws HttpError 404. */
export function checkModel(model: string | null, { model: { names } }: PortService): void {
  if (model === null || names.includes(model)) return;
  const found = model.length <= LONGEST_SHOWN ? model : `${model.slice(0, LONGEST_SHOWN)}…`;
  throw new HttpError(404, `the model '${found}' does not exist here: wanted ${names.join(' or ')}`, 'model');
}

/** The request's prompts as token ids, filled in as they are tokenised. */
class Prompts {
  readonly tokenIds: (readonly number[])[] = [];
  /** Resolves when all prompts are tokenised and valid. */
  readonly known: Promise<void>;
  #missing: number;
  #allKnown = (): void => {};

  constructor(count: number) {
    this.#missing = count;
    this.known = new Promise((resolve) => {
      this.#allKnown = resolve;
    });
  }

  set(index: number, tokenIds: readonly number[]): void {
    if (this.tokenIds[index] === undefined) this.#missing--;
    this.tokenIds[index] = tokenIds;
    if (this.#missing === 0) this.#allKnown();
  }
}

/** Passes the items on, and calls `leave` at the end. */
async function* untilEnd<T>(items: AsyncGenerator<T, void>, leave: () => void): AsyncGenerator<T, void> {
  try {
    yield* items;
  } finally {
    leave();
  }
}

/** Shared by a request's answers. */
interface Shared {
  prompts: Prompts;
  badWords: Promise<(readonly number[])[]>;
  signal: AbortSignal;
  received: Promise<void>;
  onEngines: GenerationRequest['onEngines'];
}

/** Generates one answer, timed and recorded. Logits are reduced to the requested logprobs. */
async function* pieceByPiece(
  deps: GenerationDeps,
  parsed: ParsedRequest,
  choice: Choice,
  { prompts, badWords, signal, received, onEngines }: Shared,
): AsyncGenerator<ChoicePiece> {
  const { service, observer } = deps;
  const { requestId, index } = choice;
  const accepted = systemClock.now();
  let valid = false;
  let firstMs: number | null = null;
  let lastMs = accepted;
  let outputTokens = 0;
  let end: AnswerEnd | null = null;
  let recent: readonly number[] = [];
  let failure: unknown = null;
  try {
    const badWordsTokenIds = await badWords.catch((error: unknown) => {
      // The request never reached the engine, so the holder of its blocks is notified here.
      if (service.kind === 'engine' && !isRetryLater(error))
        service.refused({ kv_transfer_params: parsed.kvTransferParams, cache_salt: parsed.cacheSalt });
      throw error;
    });
    const sampling = { ...choice.sampling, badWordsTokenIds };
    const pieces = service.generate({
      ...parsed,
      ...choice,
      sampling,
      requestId: unguessable(requestId),
      signal,
      received,
      // Only the first answer's engines are reported.
      onEngines: index === 0 ? onEngines : () => {},
      onPrompt: (tokenIds) => {
        checkPrompt(tokenIds, parsed, sampling, service.model);
        prompts.set(choice.promptIndex, tokenIds);
        valid = true;
      },
    });
    for await (const piece of pieces) {
      observer.token(firstMs === null ? null : piece.atMs - lastMs);
      firstMs ??= piece.atMs;
      lastMs = piece.atMs;
      outputTokens++;
      const { tokenId, text, logits, final } = piece;
      end = final;
      const wanted = parsed.topLogprobs !== null && logits;
      const before = recent;
      recent = [...recent, tokenId].slice(-TOKENS_BEFORE);
      yield {
        index,
        tokenId,
        text,
        final,
        logprobs: wanted ? logprobsOf(logits, tokenId, parsed.topLogprobs!, before) : null,
      };
    }
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    if (valid) {
      const record: RequestRecord = {
        requestId,
        firstTokenMs: firstMs === null ? null : firstMs - accepted,
        latencyMs: systemClock.now() - accepted,
        outputTokens,
        prompt: end?.prompt ?? null,
        storedTokens: end?.storedTokens ?? 0,
        reason: end?.finishReason ?? (signal.aborted || !failure ? 'abort' : 'error'),
      };
      observer.finished(record);
      deps.onEnd(record);
    }
  }
}
