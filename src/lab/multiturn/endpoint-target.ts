/**
 * An OpenAI-compatible server as a benchmark's target, by streaming: times are what a client sees. Chat completions with
 * vLLM's min_tokens; or completions of token ids. Every failure is this request's own.
 */
import { createParser } from 'eventsource-parser';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';
import { timerMs } from '../../platform/clock.ts';
import type { Vocabulary } from '../../workload/types.ts';
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

/** vLLM's benchmark allows so long a token, beyond which --request-timeout-sec holds. */
const TIMEOUT_MS_A_TOKEN = 200;

/** Milliseconds that a server has to end an answer after its [DONE]: the connection of one that ended serves the next request. */
const TO_END_MS = 100;

/** Of an error's body. */
const MOST_ERROR_TEXT = 200;

const chunkSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        delta: z
          .looseObject({
            content: z.string().nullish(),
            // What a reasoning model thinks before it answers: vLLM's name, and its older one, which others have.
            reasoning: z.string().nullish(),
            reasoning_content: z.string().nullish(),
          })
          .optional(),
        text: z.string().nullish(),
      }),
    )
    .optional(),
  usage: z
    .looseObject({
      prompt_tokens: z.number(),
      completion_tokens: z.number().optional(),
      prompt_tokens_details: z.looseObject({ cached_tokens: z.number().nullish() }).nullish(),
    })
    .nullish(),
  error: z.unknown().optional(),
  /** 'error': vLLM's events of failure before 0.11. */
  object: z.string().nullish(),
});

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
      throw new RequestError(`the server answered ${response.status}: ${text || response.statusText}`);
    }
    const type = response.headers.get('content-type') ?? '';
    if (!type.includes('text/event-stream')) {
      await response.body.cancel();
      throw new RequestError(
        `the server answered with ${type || 'no content type'}: wanted a text/event-stream`,
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
      // Of an answer that becomes token ids again nothing may be left out.
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
        localHitTokens: cached,
        pulledTokens: null,
        computedTokens: usage && cached !== null ? usage.prompt_tokens - cached : null,
      },
      stagesMs: {},
      bytesPToD: null,
      bytesDToP: null,
    };
  }
}

/** Collects an answer as it comes. */
class AnswerStream {
  /** Since the request began. */
  firstMs: number | null = null;
  readonly gapsMs: number[] = [];
  /** Tokens like those of the answer, but none of it: no client sends them back. */
  thoughts = '';
  text = '';
  chunks = 0;
  /** Of its last event; when the server closes the stream is its own affair. */
  doneMs: number | null = null;
  usage: z.infer<typeof chunkSchema>['usage'] = null;
  #lastMs = 0;
  readonly #parser;

  constructor(begunMs: number, now: () => number) {
    this.#parser = createParser({
      onEvent: ({ data }) => this.#event(data, now() - begunMs),
    });
  }

  feed(text: string): void {
    this.#parser.feed(text);
  }

  /** The last event may lack the empty line that ends it. */
  end(): void {
    if (this.doneMs === null) this.#parser.feed('\n\n');
  }

  #event(data: string, atMs: number): void {
    if (data === '[DONE]') {
      this.doneMs ??= atMs;
      return;
    }
    const chunk = parseChunk(data);
    const failure = chunk.error ?? (chunk.object === 'error' ? data : null);
    if (failure) throw new RequestError(`the server reported: ${shown(failure)}`);
    if (chunk.usage) this.usage = chunk.usage;
    const [choice] = chunk.choices ?? [];
    const added = choice?.delta?.content ?? choice?.text ?? '';
    const thought = choice?.delta?.reasoning ?? choice?.delta?.reasoning_content ?? '';
    if (added === '' && thought === '') return;
    if (this.firstMs === null) this.firstMs = atMs;
    else this.gapsMs.push(atMs - this.#lastMs);
    this.#lastMs = atMs;
    this.thoughts += thought;
    this.text += added;
    this.chunks++;
  }
}

function parseChunk(data: string): z.infer<typeof chunkSchema> {
  const json = parsedJson(data);
  if (json === undefined)
    throw new RequestError(`the stream has an event that is no JSON: ${data.slice(0, MOST_ERROR_TEXT)}`);
  const parsed = chunkSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new RequestError(`the stream has an event of another shape: ${data.slice(0, MOST_ERROR_TEXT)}`);
}

/** undefined: it is none. */
function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const shown = (value: unknown): string =>
  (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, MOST_ERROR_TEXT);

/** fetch says "fetch failed" and hides why in the cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error && cause.message ? `${message} (${cause.message})` : message;
}

const modelsSchema = z.looseObject({
  data: z.array(z.looseObject({ id: z.string() })).min(1),
});

/** The name of the server's first model. Throws RequestError when there is no such server, or the signal's reason. */
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
        `${url}/v1/models gave no answer in ${timeoutMs / 1000} s: see whether the server is well, or name its model with --model`,
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
  throw new RequestError(
    `${url}/v1/models answered ${response.status} without a list of models: name the server's model with --model`,
  );
}
