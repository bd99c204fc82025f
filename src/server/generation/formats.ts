/** Builds the three endpoints' responses in OpenAI's and vLLM's formats, whole or as the chunks of a stream. */

import type { AnswerEnd } from '../service.ts';
import type { PieceLogprobs, TokenLogprob } from './logprobs.ts';
import { asShown, type ShowToken } from './token-shown.ts';

/** The fields of a response that are the same for all its choices and chunks. */
export interface AnswerHead {
  id: string;
  /** Unix seconds. */
  created: number;
  model: string;
  showToken: ShowToken;
  /** Send kv_transfer_params in the last chunk of a stream. */
  streamingKvParams: boolean;
}

export interface Piece {
  tokenId: number;
  text: string;
  logprobs: PieceLogprobs | null;
  final: AnswerEnd | null;
}

/** Token counts of a response, or of one of its choices. */
export interface Usage {
  promptTokens: number;
  /** null: not reported. */
  cachedTokens: number | null;
  outputTokens: number;
}

/** One complete choice. */
export interface CompleteAnswer {
  index: number;
  pieces: readonly Piece[];
  end: AnswerEnd;
  /** null: token ids were not requested. */
  promptTokenIds: readonly number[] | null;
}

/** What a chunk contains in addition to its piece. */
export interface ChunkPlace {
  /** Index of the choice. */
  index: number;
  /** Characters of the choice before this piece. */
  textBefore: number;
  /** Include the token ids. */
  ids: boolean;
  /** Set on a choice's first chunk if token ids were requested. */
  promptTokenIds: readonly number[] | null;
  /** Usage of the choice so far, if requested with every chunk. */
  usage: Usage | null;
}

export interface Format {
  /** Prefix of the response's id; the request's id follows. */
  idPrefix: string;
  complete(head: AnswerHead, answers: readonly CompleteAnswer[], usage: Usage): object;
  /** The chunk sent before a choice's first piece; null: none. */
  opening(head: AnswerHead, place: ChunkPlace): object | null;
  chunk(head: AnswerHead, piece: Piece, place: ChunkPlace): object;
  usageChunk(head: AnswerHead, usage: Usage): object;
}

const usageFields = ({ promptTokens, cachedTokens, outputTokens }: Usage) => ({
  prompt_tokens: promptTokens,
  total_tokens: promptTokens + outputTokens,
  completion_tokens: outputTokens,
  ...(cachedTokens === null ? {} : { prompt_tokens_details: { cached_tokens: cachedTokens } }),
});

const soFar = ({ usage }: ChunkPlace) => (usage ? { usage: usageFields(usage) } : {});

const textOf = (pieces: readonly Piece[]): string => pieces.map(({ text }) => text).join('');

const idsOf = (pieces: readonly Piece[]): number[] => pieces.map(({ tokenId }) => tokenId);

/** vLLM's return_token_ids: the prompt's ids are next to a chat response's choices, and inside each choice of a completion. */
const promptIds = ({ promptTokenIds }: { promptTokenIds: readonly number[] | null }) =>
  promptTokenIds ? { prompt_token_ids: promptTokenIds } : {};

/** For a choice's last chunk; empty if there are none. */
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
  complete: (head, answers, usage) => ({
    ...chatHead(head, 'chat.completion'),
    choices: answers.map(({ index, pieces, end, promptTokenIds }) => ({
      index,
      message: { role: 'assistant', content: textOf(pieces) },
      logprobs: chatLogprobs(pieces, head.showToken),
      ...finishOf(end),
      ...(promptTokenIds ? { token_ids: idsOf(pieces) } : {}),
    })),
    usage: usageFields(usage),
    ...promptIds(answers[0]!),
    kv_transfer_params: answers[0]!.end.kvTransferParams,
  }),
  opening: (head, place) => ({
    ...chatHead(head, 'chat.completion.chunk'),
    choices: [
      {
        index: place.index,
        delta: { role: 'assistant', content: '' },
        logprobs: null,
        finish_reason: null,
      },
    ],
    ...promptIds(place),
    ...soFar(place),
  }),
  chunk: (head, piece, place) => ({
    ...chatHead(head, 'chat.completion.chunk'),
    choices: [
      {
        index: place.index,
        delta: { content: piece.text },
        logprobs: chatLogprobs([piece], head.showToken),
        ...finishOf(piece.final),
        ...(place.ids ? { token_ids: [piece.tokenId] } : {}),
      },
    ],
    ...soFar(place),
    ...streamedParams(head, piece.final),
  }),
  usageChunk: (head, usage) => ({
    ...chatHead(head, 'chat.completion.chunk'),
    choices: [],
    usage: usageFields(usage),
  }),
};

export const completionFormat: Format = {
  idPrefix: 'cmpl-',
  complete: (head, answers, usage) => ({
    ...chatHead(head, 'text_completion'),
    choices: answers.map(({ index, pieces, end, promptTokenIds }) => ({
      index,
      text: textOf(pieces),
      logprobs: completionLogprobs(pieces, head.showToken, 0),
      ...finishOf(end),
      ...(promptTokenIds ? { prompt_token_ids: promptTokenIds, token_ids: idsOf(pieces) } : {}),
    })),
    usage: usageFields(usage),
    kv_transfer_params: answers[0]!.end.kvTransferParams,
  }),
  opening: () => null,
  chunk: (head, piece, place) => ({
    ...chatHead(head, 'text_completion'),
    choices: [
      {
        index: place.index,
        text: piece.text,
        logprobs: completionLogprobs([piece], head.showToken, place.textBefore),
        ...finishOf(piece.final),
        ...promptIds(place),
        ...(place.ids ? { token_ids: [piece.tokenId] } : {}),
      },
    ],
    ...soFar(place),
    ...streamedParams(head, piece.final),
  }),
  usageChunk: (head, usage) => ({
    ...chatHead(head, 'text_completion'),
    choices: [],
    usage: usageFields(usage),
  }),
};

/**
 * Tokens in, tokens out: vLLM's /inference/v1/generate. Its responses have a request_id instead of id and model; only a
 * stream reports usage.
 */
export const tokensFormat: Format = {
  idPrefix: '',
  complete: (head, answers) => ({
    request_id: head.id,
    choices: answers.map(({ index, pieces, end }) => ({
      index,
      logprobs: chatLogprobs(pieces, namedById),
      finish_reason: end.finishReason,
      token_ids: idsOf(pieces),
    })),
    prompt_logprobs: null,
    ...promptIds(answers[0]!),
    kv_transfer_params: answers[0]!.end.kvTransferParams,
  }),
  opening: () => null,
  chunk: (head, piece, place) => ({
    request_id: head.id,
    choices: [
      {
        index: place.index,
        logprobs: chatLogprobs([piece], namedById),
        finish_reason: piece.final?.finishReason ?? null,
        token_ids: [piece.tokenId],
      },
    ],
    ...promptIds(place),
    usage: place.usage && usageFields(place.usage),
    ...streamedParams(head, piece.final),
  }),
  usageChunk: (head, usage) => ({
    request_id: head.id,
    choices: [],
    usage: usageFields(usage),
  }),
};

const namedById: ShowToken = (tokenId) => asShown(`token_id:${tokenId}`);

function chatLogprobs(pieces: readonly Piece[], show: ShowToken) {
  if (pieces.every(({ logprobs }) => logprobs === null)) return null;
  const at =
    (before: readonly number[]) =>
    ({ tokenId, logprob }: TokenLogprob) => {
      const { token, bytes } = show(tokenId, before);
      return { token, logprob, bytes };
    };
  return {
    content: pieces.flatMap(({ logprobs }) =>
      logprobs
        ? [{ ...at(logprobs.before)(logprobs), top_logprobs: logprobs.top.map(at(logprobs.before)) }]
        : [],
    ),
  };
}

/** Length of a text as Python counts it; text_offset is in these, as in vLLM. */
export const codePoints = (text: string): number => [...text].length;

/** The older logprobs format, of /v1/completions. */
function completionLogprobs(pieces: readonly Piece[], show: ShowToken, textBefore: number) {
  if (pieces.every(({ logprobs }) => logprobs === null)) return null;
  let offset = textBefore;
  const offsets = pieces.map(({ text }) => {
    const at = offset;
    offset += codePoints(text);
    return at;
  });
  const known = pieces.flatMap(({ logprobs }) => (logprobs ? [logprobs] : []));
  return {
    tokens: known.map(({ tokenId, before }) => show(tokenId, before).token),
    token_logprobs: known.map(({ logprob }) => logprob),
    // The sampled token is always included, so there may be one entry more than requested.
    top_logprobs: known.map(({ tokenId, logprob, before, top }) =>
      Object.fromEntries(
        [...top, { tokenId, logprob }].map((one) => [show(one.tokenId, before).token, one.logprob]),
      ),
    ),
    text_offset: offsets,
  };
}
