/**
 * An OpenAI-compatible server as a benchmark's target. Streams chat completions with vLLM's min_tokens, or completions of token
 * ids. Times are as the client sees them. A failure concerns only its own request.
 */
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import { timerMs } from '../../platform/clock.ts';
import type { Vocabulary } from '../../workload/types.ts';
import { AnswerStream, MOST_ERROR_TEXT, parsedJson } from './answer-stream.ts';
import type { AnsweredTurn, BenchTarget, TurnToSend } from './target.ts';

export interface EndpointOptions {
  /** Without /v1. */
  url: string;
  model: string;
  apiKey: string | null;
  sendConversationId: boolean;
  /** Sends token ids to /v1/completions; needs the tokenizer. */
  tokenIds: boolean;
  tokenizer: Vocabulary | null;
  temperature: number;
  seed: number;
  timeoutMs: number;
  /** Milliseconds. */
  now(): number;
  fetch: typeof fetch;
}

/** As in vLLM's benchmark: the timeout is this per output token, or --request-timeout-sec if that is longer. */
const TIMEOUT_MS_A_TOKEN = 200;

/** Milliseconds that a server has to end a response after its [DONE]. If it does, the connection is reused. */
const TO_END_MS = 100;

/** vLLM's benchmark counts a refused request as failed, too, unless it is given retries. */
const NOT_SENT_AGAIN =
  ' (with Retry-After; a refused request is a failure and not sent again: use fewer clients or a lower rate)';

export class EndpointTarget implements BenchTarget {
  readonly #options: EndpointOptions;

  constructor(options: EndpointOptions) {
    this.#options = options;
  }

  get url(): string {
    return this.#options.url;
  }

  get model(): string {
    return this.#options.model;
  }

  async send(turn: TurnToSend): Promise<AnsweredTurn> {
    const { now, timeoutMs } = this.#options;
    const limit = Math.max(timeoutMs, (turn.maxTokens ?? 0) * TIMEOUT_MS_A_TOKEN);
    const timeout = AbortSignal.timeout(timerMs(limit));
    const begunMs = now();
    const stream = new AnswerStream(begunMs, now);
    try {
      await this.#receive(turn, stream, AbortSignal.any([turn.signal, timeout]));
    } catch (error) {
      turn.signal.throwIfAborted();
      if (timeout.aborted) throw new RequestError(`no answer in ${limit / 1000} s`);
      if (error instanceof RequestError) throw error;
      throw new RequestError(`${this.#options.url}: ${reasonOf(error)}`, { cause: error });
    }
    return this.#answered(turn, stream);
  }

  async endConversation(): Promise<void> {}

  async settled(): Promise<void> {}

  async #receive(turn: TurnToSend, stream: AnswerStream, signal: AbortSignal): Promise<void> {
    const { url, apiKey, sendConversationId, fetch } = this.#options;
    const left = new AbortController();
    const response = await fetch(
      `${url}${turn.prompt.kind === 'tokens' ? '/v1/completions' : '/v1/chat/completions'}`,
      {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(apiKey !== null && { authorization: `Bearer ${apiKey}` }),
          ...(sendConversationId && { 'x-session-id': turn.conversationId }),
        },
        body: JSON.stringify(this.#body(turn)),
        signal: AbortSignal.any([signal, left.signal]),
      },
    );
    if (!response.ok || !response.body) {
      const text = (await response.text()).slice(0, MOST_ERROR_TEXT);
      // Without its seconds: equal failures are counted together.
      const again = response.headers.has('retry-after') ? NOT_SENT_AGAIN : '';
      throw new RequestError(
        `the server answered ${response.status}: ${text || response.statusText}${again}${keyHint(response.status, apiKey)}`,
      );
    }
    const type = response.headers.get('content-type') ?? '';
    if (!type.includes('text/event-stream')) {
      await response.body.cancel();
      throw new RequestError(
        `the server answered with ${type || 'no content type'}: wanted text/event-stream`,
      );
    }
    const decoder = new TextDecoder();
    let leaving: ReturnType<typeof setTimeout> | null = null;
    try {
      for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
        stream.feed(decoder.decode(bytes, { stream: true }));
        if (stream.doneMs !== null) leaving ??= setTimeout(() => left.abort(), TO_END_MS);
      }
    } catch (error) {
      if (stream.doneMs === null) throw error;
    } finally {
      if (leaving !== null) clearTimeout(leaving);
    }
    stream.end();
    if (stream.doneMs === null) throw new RequestError('the stream ended without data: [DONE]');
    if (stream.chunks === 0) throw new RequestError('the answer has no text');
  }

  #body({ prompt, minTokens, maxTokens, conversationId }: TurnToSend): Record<string, unknown> {
    const { model, temperature, seed, sendConversationId } = this.#options;
    return {
      model,
      // The answer's text is tokenised again for the next turn, so it must include special tokens.
      ...(prompt.kind === 'tokens'
        ? { prompt: prompt.tokenIds, skip_special_tokens: false }
        : { messages: prompt.messages }),
      ...(sendConversationId && { conversation_id: conversationId }),
      stream: true,
      stream_options: { include_usage: true },
      temperature,
      seed,
      ...(minTokens !== null && { min_tokens: minTokens }),
      ...(maxTokens !== null && { max_tokens: maxTokens }),
    };
  }

  #answered(turn: TurnToSend, stream: AnswerStream): AnsweredTurn {
    const { tokenizer } = this.#options;
    const { usage, thoughts, text, chunks } = stream;
    const cached = usage?.prompt_tokens_details?.cached_tokens ?? null;
    return {
      ttftMs: stream.firstMs!,
      latencyMs: stream.doneMs!,
      gapsMs: stream.gapsMs,
      inputTokens: usage?.prompt_tokens ?? null,
      outputTokens:
        usage?.completion_tokens ?? (tokenizer ? tokenizer.encode(thoughts + text).length : chunks),
      chunks,
      output: [text],
      answer:
        turn.prompt.kind === 'tokens'
          ? { kind: 'tokens', tokenIds: tokenizer!.encode(text) }
          : { kind: 'text', text },
      account: {
        localHitTokens: null,
        pulledTokens: null,
        computedTokens: usage && cached !== null ? usage.prompt_tokens - cached : null,
      },
      cachedTokens: cached,
      stagesMs: {},
      bytesPToD: null,
      bytesDToP: null,
    };
  }
}

/** fetch reports only "fetch failed"; the reason is in the cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error && cause.message ? `${message} (${cause.message})` : message;
}

/** What to do where the server refuses the client for its key; '' for other answers. */
function keyHint(status: number, apiKey: string | null): string {
  if (status !== 401 && status !== 403) return '';
  return apiKey === null
    ? ' (no key was sent: set OPENAI_API_KEY to one of the server)'
    : ' (the key in OPENAI_API_KEY was sent: set it to one of the server)';
}

const modelsSchema = z.looseObject({
  data: z.array(z.looseObject({ id: z.string() })).min(1),
});

/** The name of the server's first model. Throws RequestError if the server returns none, or the signal's reason. */
export async function firstModel(
  { url, apiKey, timeoutMs, fetch }: Pick<EndpointOptions, 'url' | 'apiKey' | 'timeoutMs' | 'fetch'>,
  signal: AbortSignal,
): Promise<string> {
  const timeout = AbortSignal.timeout(timerMs(timeoutMs));
  let response: Response;
  let body: unknown;
  try {
    response = await fetch(`${url}/v1/models`, {
      headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
      signal: AbortSignal.any([signal, timeout]),
    });
    body = await response.text().then(parsedJson);
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) {
      throw new RequestError(
        `${url}/v1/models did not answer in ${timeoutMs / 1000} s: check the server, or name its model with --model`,
      );
    }
    throw new RequestError(
      `no server answers at ${url}: ${reasonOf(error)}; start it, or correct --endpoint`,
      {
        cause: error,
      },
    );
  }
  const parsed = modelsSchema.safeParse(body);
  if (response.ok && parsed.success) return parsed.data.data[0]!.id;
  const hint = keyHint(response.status, apiKey);
  throw new RequestError(
    `${url}/v1/models answered ${response.status}${hint || " without a list of models: name the server's model with --model"}`,
  );
}
