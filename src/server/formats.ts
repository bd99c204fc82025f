/** The three endpoints' answers, in OpenAI's and vLLM's shapes: whole, and piece by piece. */
import type { PieceLogprobs, TokenLogprob } from './logprobs.ts';
import type { AnswerEnd } from './service.ts';

/** What an answer's shape needs beside its text. */
export interface AnswerHead {
  id: string;
  /** Unix seconds. */
  created: number;
  model: string;
  /** One token's text. */
  tokenText: (tokenId: number) => string;
  /** kv_transfer_params stand in the last chunk of a stream. */
  streamingKvParams: boolean;
}

export interface Piece {
  tokenId: number;
  text: string;
  logprobs: PieceLogprobs | null;
  final: AnswerEnd | null;
}

export interface Format {
  /** Before the request's id in the answer's. */
  idPrefix: string;
  whole(head: AnswerHead, pieces: readonly Piece[], end: AnswerEnd): object;
  /** Chunks before the first piece. */
  opening(head: AnswerHead): object[];
  /** `textBefore`: characters of the answer before this piece. */
  chunk(head: AnswerHead, piece: Piece, textBefore: number): object;
  usageChunk(head: AnswerHead, outputTokens: number, end: AnswerEnd): object;
}

function usage(outputTokens: number, { prompt }: AnswerEnd) {
  return {
    prompt_tokens: prompt.promptTokens,
    total_tokens: prompt.promptTokens + outputTokens,
    completion_tokens: outputTokens,
    prompt_tokens_details: { cached_tokens: prompt.localHitTokens + prompt.pulledTokens },
  };
}

const textOf = (pieces: readonly Piece[]): string => pieces.map(({ text }) => text).join('');

/** In a stream, with the last chunk; absent where there are none. */
function streamedParams(head: AnswerHead, final: AnswerEnd | null): { kv_transfer_params?: object } {
  const params = final?.kvTransferParams;
  return head.streamingKvParams && params ? { kv_transfer_params: params } : {};
}

const finishOf = (end: AnswerEnd | null) => ({
  finish_reason: end?.finishReason ?? null,
  stop_reason: end?.stopReason ?? null,
});

const chatHead = ({ id, created, model }: AnswerHead, object: string) => ({ id, object, created, model });

export const chatFormat: Format = {
  idPrefix: 'chatcmpl-',
  whole: (head, pieces, end) => ({
    ...chatHead(head, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: textOf(pieces) },
        logprobs: chatLogprobs(pieces, head.tokenText),
        ...finishOf(end),
      },
    ],
    usage: usage(pieces.length, end),
    kv_transfer_params: end.kvTransferParams,
  }),
  opening: (head) => [
    {
      ...chatHead(head, 'chat.completion.chunk'),
      choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
    },
  ],
  chunk: (head, piece) => ({
    ...chatHead(head, 'chat.completion.chunk'),
    choices: [
      {
        index: 0,
        delta: { content: piece.text },
        logprobs: chatLogprobs([piece], head.tokenText),
        ...finishOf(piece.final),
      },
    ],
    ...streamedParams(head, piece.final),
  }),
  usageChunk: (head, outputTokens, end) => ({
    ...chatHead(head, 'chat.completion.chunk'),
    choices: [],
    usage: usage(outputTokens, end),
  }),
};

export const completionFormat: Format = {
  idPrefix: 'cmpl-',
  whole: (head, pieces, end) => ({
    ...chatHead(head, 'text_completion'),
    choices: [
      {
        index: 0,
        text: textOf(pieces),
        logprobs: completionLogprobs(pieces, head.tokenText, 0),
        ...finishOf(end),
      },
    ],
    usage: usage(pieces.length, end),
    kv_transfer_params: end.kvTransferParams,
  }),
  opening: () => [],
  chunk: (head, piece, textBefore) => ({
    ...chatHead(head, 'text_completion'),
    choices: [
      {
        index: 0,
        text: piece.text,
        logprobs: completionLogprobs([piece], head.tokenText, textBefore),
        ...finishOf(piece.final),
      },
    ],
    ...streamedParams(head, piece.final),
  }),
  usageChunk: (head, outputTokens, end) => ({
    ...chatHead(head, 'text_completion'),
    choices: [],
    usage: usage(outputTokens, end),
  }),
};

/** Tokens in, tokens out: vLLM's /inference/v1/generate, whose answers have no id, model or usage but in the last chunk. */
export const tokensFormat: Format = {
  idPrefix: '',
  whole: (head, pieces, end) => ({
    request_id: head.id,
    choices: [
      {
        index: 0,
        logprobs: chatLogprobs(pieces, namedById),
        finish_reason: end.finishReason,
        token_ids: pieces.map(({ tokenId }) => tokenId),
      },
    ],
    prompt_logprobs: null,
    kv_transfer_params: end.kvTransferParams,
  }),
  opening: () => [],
  chunk: (head, piece) => ({
    request_id: head.id,
    choices: [
      {
        index: 0,
        logprobs: chatLogprobs([piece], namedById),
        finish_reason: piece.final?.finishReason ?? null,
        token_ids: [piece.tokenId],
      },
    ],
    usage: null,
    ...streamedParams(head, piece.final),
  }),
  usageChunk: (head, outputTokens, end) => ({
    request_id: head.id,
    choices: [],
    usage: usage(outputTokens, end),
  }),
};

const namedById = (tokenId: number): string => `token_id:${tokenId}`;

const utf8 = new TextEncoder();

function chatLogprobs(pieces: readonly Piece[], name: (tokenId: number) => string) {
  if (pieces.every(({ logprobs }) => logprobs === null)) return null;
  const entry = ({ tokenId, logprob }: TokenLogprob) => {
    const token = name(tokenId);
    return { token, logprob, bytes: [...utf8.encode(token)] };
  };
  return {
    content: pieces.flatMap(({ logprobs }) =>
      logprobs ? [{ ...entry(logprobs), top_logprobs: logprobs.top.map(entry) }] : [],
    ),
  };
}

/** The older shape, of /v1/completions. */
function completionLogprobs(
  pieces: readonly Piece[],
  tokenText: (tokenId: number) => string,
  textBefore: number,
) {
  if (pieces.every(({ logprobs }) => logprobs === null)) return null;
  let offset = textBefore;
  const offsets = pieces.map(({ text }) => {
    const at = offset;
    offset += text.length;
    return at;
  });
  const known = pieces.flatMap(({ logprobs }) => (logprobs ? [logprobs] : []));
  return {
    tokens: known.map(({ tokenId }) => tokenText(tokenId)),
    token_logprobs: known.map(({ logprob }) => logprob),
    top_logprobs: known.map(({ top }) =>
      Object.fromEntries(top.map(({ tokenId, logprob }) => [tokenText(tokenId), logprob])),
    ),
    text_offset: offsets,
  };
}
