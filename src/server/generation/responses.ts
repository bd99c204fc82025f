/** Turns answers into a response: whole, or as server-sent events sent as fast as the client reads them. */

import { sumOf } from '../../sum.ts';
import { asHttpError, errorBody, HttpError } from '../http/http-error.ts';
import { jsonResponse, safeJson } from '../http/json.ts';
import type { AnswerEnd } from '../service.ts';
import type { ParsedRequest } from './bodies.ts';
import type { Choice } from './choices.ts';
import {
  type AnswerHead,
  type ChunkPlace,
  type CompleteAnswer,
  codePoints,
  type Format,
  type Piece,
  type Usage,
} from './formats.ts';

export interface ChoicePiece extends Piece {
  /** Index of its choice. */
  index: number;
}

/** What is needed to turn a request's answers into its response. */
export interface Answer {
  parsed: ParsedRequest;
  choices: readonly Choice[];
  /** Token ids, by prompt index. */
  prompts: readonly (readonly number[])[];
  head: AnswerHead;
  format: Format;
  /** Called with internal errors after a stream has begun. */
  onError: (error: unknown) => void;
}

type Next = IteratorResult<ChoicePiece, void>;

const unended = (): HttpError => new HttpError(500, 'an answer ended without a finish reason');

export async function completeResponse(
  rest: AsyncGenerator<ChoicePiece, void>,
  first: Next,
  { choices, prompts, parsed, head, format }: Answer,
): Promise<Response> {
  const pieces: Piece[][] = choices.map(() => []);
  for (let next = first; !next.done; next = await rest.next()) pieces[next.value.index]!.push(next.value);
  const answers = choices.map(({ index, promptIndex }): CompleteAnswer => {
    const end = pieces[index]!.at(-1)?.final;
    if (!end) throw unended();
    const promptTokenIds = parsed.returnTokenIds ? prompts[promptIndex]! : null;
    return { index, pieces: pieces[index]!, end, promptTokenIds };
  });
  const usage = usageOf(
    choices,
    answers.map(({ end }) => end),
    sumOf(answers, (answer) => answer.pieces.length),
  );
  return jsonResponse(format.complete(head, answers, usage));
}

/** A prompt counts once, even if it has several answers. */
function usageOf(choices: readonly Choice[], ends: readonly AnswerEnd[], outputTokens: number): Usage {
  const ofPrompts = ends.filter((_, i) => choices[i]!.promptIndex !== choices[i - 1]?.promptIndex);
  const sum = (tokens: (prompt: AnswerEnd['prompt']) => number) =>
    sumOf(ofPrompts, ({ prompt }) => tokens(prompt));
  return {
    promptTokens: sum(({ promptTokens }) => promptTokens),
    cachedTokens: sum(({ localHitTokens, pulledTokens }) => localHitTokens + pulledTokens),
    outputTokens,
  };
}

const DONE = 'data: [DONE]\n\n';
const line = (value: unknown): string => `data: ${safeJson(value)}\n\n`;

/** What has been sent of a choice. */
interface Sent {
  tokens: number;
  /** Characters. */
  length: number;
  chunks: number;
  end: AnswerEnd | null;
}

async function* lines(
  rest: AsyncGenerator<ChoicePiece, void>,
  first: Next,
  answer: Answer,
): AsyncGenerator<string> {
  const { choices, prompts, parsed, head, format } = answer;
  const sent = choices.map((): Sent => ({ tokens: 0, length: 0, chunks: 0, end: null }));
  /** For the choice's next chunk. */
  const place = ({ index, promptIndex }: Choice): ChunkPlace => {
    const { tokens, length, chunks } = sent[index]!;
    const prompt = prompts[promptIndex]!;
    return {
      index,
      textBefore: length,
      ids: parsed.returnTokenIds,
      promptTokenIds: parsed.returnTokenIds && chunks === 0 ? prompt : null,
      usage: parsed.continuousUsage
        ? { promptTokens: prompt.length, cachedTokens: null, outputTokens: tokens }
        : null,
    };
  };
  try {
    for (const choice of choices) {
      const opening = format.opening(head, place(choice));
      if (opening === null) continue;
      sent[choice.index]!.chunks++;
      yield line(opening);
    }
    for (let next = first; !next.done; next = await rest.next()) {
      const piece = next.value;
      const of = sent[piece.index]!;
      of.tokens++;
      of.end = piece.final;
      // A token without text is skipped, unless the client reads tokens.
      if (piece.text !== '' || piece.final || piece.logprobs || parsed.returnsTokens) {
        yield line(format.chunk(head, piece, place(choices[piece.index]!)));
        of.chunks++;
      }
      of.length += codePoints(piece.text);
    }
    const ends = sent.map(({ end }) => {
      if (!end) throw unended();
      return end;
    });
    const outputTokens = sumOf(sent, ({ tokens }) => tokens);
    if (parsed.includeUsage) yield line(format.usageChunk(head, usageOf(choices, ends, outputTokens)));
  } catch (error) {
    const known = asHttpError(error);
    if (known.status === 500) answer.onError(error);
    yield line(errorBody(known));
  } finally {
    await rest.return();
  }
  yield DONE;
}

/** `end`: called if the client cancels the stream. */
export function streamed(
  rest: AsyncGenerator<ChoicePiece, void>,
  first: Next,
  answer: Answer,
  end: () => void,
): Response {
  const encoder = new TextEncoder();
  const events = lines(rest, first, answer);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await events.next();
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    cancel() {
      end();
      void events.return(undefined).catch(() => {});
    },
  });
  return new Response(body, {
    headers: {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-cache',
      'X-Accel-Buffering': 'no',
    },
  });
}
