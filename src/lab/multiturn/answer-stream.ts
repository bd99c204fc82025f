/** A chat completion or completion as a server streams it: parsed, timed and added up. */
import { createParser } from 'eventsource-parser';
import { z } from 'zod';
import { RequestError } from '../../errors.ts';

/** Most characters shown of an error's body or of an event. */
export const MOST_ERROR_TEXT = 200;

const chunkSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        delta: z
          .looseObject({
            content: z.string().nullish(),
            // A reasoning model's thoughts before its answer: vLLM's name, and its older name, which other servers use.
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
  /** 'error': an error event of vLLM before 0.11. */
  object: z.string().nullish(),
});

/** Collects a streamed answer. Times are milliseconds since the request began. */
export class AnswerStream {
  firstMs: number | null = null;
  readonly gapsMs: number[] = [];
  /** Reasoning text: counts as output tokens, but is not part of the answer, so clients do not send it back. */
  thoughts = '';
  text = '';
  chunks = 0;
  /** When [DONE] came. The server may close the stream later. */
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

  /** Handles a last event without the empty line that should end it. */
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
    throw new RequestError(`the stream has an event that is not JSON: ${data.slice(0, MOST_ERROR_TEXT)}`);
  const parsed = chunkSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new RequestError(
    `the stream has an event that is not a completion chunk: ${data.slice(0, MOST_ERROR_TEXT)}`,
  );
}

/** undefined: not JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const shown = (value: unknown): string =>
  (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, MOST_ERROR_TEXT);
