/**
 * Request bodies of the three generation endpoints, /tokenize and /detokenize: their schemas, and their conversion to Asked.
 * Field names and defaults are vLLM's and OpenAI's. Checks that need the tokenised prompt are in prompt-check.ts.
 */
import { z } from 'zod';
import type { SamplingParams } from '../../engine/types.ts';
import type { Message, PromptEnd } from '../../router/turn-types.ts';
import { messageText } from '../../workload/message-text.ts';
import { HttpError } from '../http/http-error.ts';
import type { Prompt } from '../service.ts';
import {
  checked,
  flag,
  requestFields,
  samplingFields,
  specialTokensOf,
  tokenIdList,
  topLogprobs,
} from './fields.ts';
import {
  refusedFields,
  refusedGenerateFields,
  refusedMessageFields,
  refusedTemplateFields,
} from './refused-fields.ts';

const object = { error: 'a JSON object' };

const textPart = z.object(
  {
    type: z.literal('text', { error: '"text" (other kinds of content are not supported)' }),
    text: z.string({ error: 'a string' }),
  },
  { error: 'a part such as {"type": "text", "text": "..."}' },
);

/** A message in OpenAI's format; plainMessage() converts it. */
const message = z.object(
  {
    ...refusedMessageFields,
    role: z.string({ error: 'a string such as "user"' }).max(64, { error: 'at most 64 characters' }),
    content: z
      .union([z.string(), z.array(textPart)], { error: 'a string, or a list of text parts' })
      .nullish(),
  },
  { error: 'an object with role and content' },
);

export const messageList = z
  .array(message, { error: 'a list of messages' })
  .min(1, { error: 'at least one message' });

/** vLLM's fields for how a prompt of messages ends. */
const endFields = {
  add_generation_prompt: flag,
  continue_final_message: flag,
};

/** Throws HttpError 400 for the combination that vLLM rejects. */
function promptEndOf(fields: z.output<z.ZodObject<typeof endFields>>): PromptEnd {
  const addsPrompt = fields.add_generation_prompt ?? true;
  if (!fields.continue_final_message) return addsPrompt ? 'generation_prompt' : 'plain';
  if (!addsPrompt) return 'continue';
  const message =
    'continue_final_message continues the last message, but add_generation_prompt (default: true) starts a new one: set add_generation_prompt to false';
  throw new HttpError(400, message, 'continue_final_message');
}

const chatSchema = z.object(
  {
    ...requestFields,
    ...samplingFields,
    ...refusedFields,
    ...endFields,
    messages: messageList,
    add_special_tokens: flag,
    max_completion_tokens: samplingFields.max_tokens,
    logprobs: flag,
    top_logprobs: topLogprobs.nullish(),
  },
  object,
);

const prompts = z.union([z.string(), tokenIdList, z.array(z.string()), z.array(tokenIdList)], {
  error: 'a string, a list of token ids, or a list of either',
});

const completionSchema = z.object(
  {
    ...requestFields,
    ...samplingFields,
    ...refusedFields,
    prompt: prompts,
    add_special_tokens: flag,
    logprobs: topLogprobs.nullish(),
  },
  object,
);

const generateSchema = z.object(
  {
    ...requestFields,
    ...refusedGenerateFields,
    token_ids: tokenIdList,
    sampling_params: z.object(
      {
        ...samplingFields,
        ...refusedFields,
        /** Accepted and ignored: this endpoint's answers have no text. */
        detokenize: flag,
        logprobs: topLogprobs.nullish(),
        extra_args: z.object({ kv_transfer_params: requestFields.kv_transfer_params }).nullish(),
      },
      { error: 'an object such as {"max_tokens": 16}' },
    ),
  },
  object,
);

/** What a request asks for, in one form for all endpoints. */
export interface ParsedRequest {
  /** null: not given, or '' (the same in vLLM). */
  model: string | null;
  /** One or more, answered at the same time. */
  prompts: readonly Prompt[];
  /** Whether the tokenizer's special tokens are added around prompts of text. */
  addSpecialTokens: boolean;
  /** Answers to each prompt. */
  n: number;
  /** Names of the body's fields for the prompt, max tokens and n, for error messages. */
  promptField: string;
  maxTokensField: string;
  nField: string;
  /** null: the server's default. */
  maxTokens: number | null;
  sampling: Partial<SamplingParams>;
  /** Words that an answer must not contain, as text; sampling has them as tokens. */
  badWords: readonly string[];
  stop: readonly string[];
  includeStop: boolean;
  skipSpecialTokens: boolean;
  /** How many of the most likely tokens to return with each token; null: no logprobs. */
  topLogprobs: number | null;
  stream: boolean;
  includeUsage: boolean;
  /** Send each choice's usage so far with every chunk. */
  continuousUsage: boolean;
  /** Return the token ids of prompts and answers. */
  returnTokenIds: boolean;
  /** Also send chunks for tokens without text. Set when the client works in tokens: it gave or asked for token ids. */
  returnsTokens: boolean;
  cacheSalt: string | null;
  kvTransferParams: Record<string, unknown> | null;
  conversationId: string | null;
  /** Routing policy or mix, from a header; null: the router's own. */
  routing: string | null;
  requestId: string | null;
}

export function parseChat(body: unknown): ParsedRequest {
  const fields = checked(chatSchema, body);
  const maxTokens = fields.max_completion_tokens ?? fields.max_tokens ?? null;
  if (fields.top_logprobs && !fields.logprobs) {
    throw new HttpError(400, 'top_logprobs is given, but logprobs is not true: set logprobs', 'top_logprobs');
  }
  return {
    ...parsed(fields, fields),
    prompts: [{ kind: 'messages', messages: fields.messages.map(plainMessage), end: promptEndOf(fields) }],
    addSpecialTokens: specialTokensOf(fields.add_special_tokens, 'messages'),
    promptField: 'messages',
    maxTokensField: fields.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens',
    maxTokens,
    topLogprobs: fields.logprobs ? (fields.top_logprobs ?? 0) : null,
  };
}

export function parseCompletion(body: unknown): ParsedRequest {
  const fields = checked(completionSchema, body);
  const prompts = promptsOf(fields.prompt);
  const common = parsed(fields, fields);
  return {
    ...common,
    prompts,
    returnsTokens: common.returnsTokens || prompts[0]!.kind === 'tokens',
    addSpecialTokens: specialTokensOf(fields.add_special_tokens, 'text'),
    promptField: 'prompt',
    topLogprobs: fields.logprobs ?? null,
  };
}

export function parseGenerate(body: unknown): ParsedRequest {
  const fields = checked(generateSchema, body);
  const sampling = fields.sampling_params;
  const inside = sampling.extra_args?.kv_transfer_params ?? null;
  const common = parsed(fields, sampling);
  return {
    ...common,
    kvTransferParams: common.kvTransferParams ?? inside,
    prompts: [{ kind: 'tokens', tokenIds: fields.token_ids }],
    addSpecialTokens: false,
    returnsTokens: true,
    promptField: 'token_ids',
    maxTokensField: 'sampling_params.max_tokens',
    nField: 'sampling_params.n',
    topLogprobs: sampling.logprobs ?? null,
  };
}

type RequestFields = z.output<z.ZodObject<typeof requestFields>>;
type SamplingFields = z.output<z.ZodObject<typeof samplingFields>>;

/** Throws HttpError 400. */
function parsed(
  request: RequestFields,
  s: SamplingFields,
): Omit<ParsedRequest, 'prompts' | 'addSpecialTokens' | 'promptField' | 'topLogprobs'> {
  // As in vLLM, an empty object counts as not given.
  if (Object.keys(request.stream_options ?? {}).length > 0 && !request.stream) {
    const message =
      'stream_options is given, but stream is not true: set stream, or leave stream_options out';
    throw new HttpError(400, message, 'stream_options');
  }
  const includeUsage = request.stream_options?.include_usage ?? false;
  const returnTokenIds = request.return_token_ids ?? false;
  const sampling: Partial<SamplingParams> = {};
  if (s.temperature != null) sampling.temperature = s.temperature;
  if (s.top_p != null) sampling.topP = s.top_p;
  if (s.top_k != null) sampling.topK = Math.max(0, s.top_k);
  if (s.seed != null) sampling.seed = s.seed;
  return {
    model: request.model || null,
    maxTokensField: 'max_tokens',
    nField: 'n',
    maxTokens: s.max_tokens ?? null,
    sampling: {
      ...sampling,
      minTokens: s.min_tokens ?? 0,
      stopTokenIds: s.stop_token_ids ?? [],
      ignoreEos: s.ignore_eos ?? false,
      allowedTokenIds: s.allowed_token_ids ? [...new Set(s.allowed_token_ids)] : null,
    },
    badWords: s.bad_words ?? [],
    stop: typeof s.stop === 'string' ? [s.stop] : (s.stop ?? []),
    includeStop: s.include_stop_str_in_output ?? false,
    skipSpecialTokens: s.skip_special_tokens ?? true,
    stream: request.stream ?? false,
    n: s.n ?? 1,
    includeUsage,
    continuousUsage: includeUsage && request.stream_options?.continuous_usage_stats === true,
    returnTokenIds,
    returnsTokens: returnTokenIds,
    cacheSalt: request.cache_salt ?? null,
    kvTransferParams: request.kv_transfer_params ?? null,
    conversationId: request.conversation_id || request.session_id || null,
    routing: null,
    requestId: request.request_id || null,
  };
}

export function plainMessage({ role, content }: z.output<typeof message>): Message {
  return { role, content: messageText(content ?? '') };
}

/** Throws HttpError 400. */
function promptsOf(prompt: z.output<typeof prompts>): Prompt[] {
  if (typeof prompt === 'string') return [{ kind: 'text', text: prompt }];
  const [first] = prompt;
  if (first === undefined) {
    const wanted = 'a string, a list of token ids, or a list of either';
    throw new HttpError(400, `prompt is []: wanted ${wanted}`, 'prompt');
  }
  if (typeof first === 'number') return [{ kind: 'tokens', tokenIds: prompt as number[] }];
  return (prompt as string[] | number[][]).map(
    (one): Prompt =>
      typeof one === 'string' ? { kind: 'text', text: one } : { kind: 'tokens', tokenIds: one },
  );
}

const tokenizeSchema = z.object(
  {
    ...refusedTemplateFields,
    model: requestFields.model,
    prompt: z.string({ error: 'a string' }).optional(),
    ...endFields,
    messages: messageList.optional(),
    add_special_tokens: flag,
    return_token_strs: flag,
  },
  object,
);

const detokenizeSchema = z.object({ model: requestFields.model, tokens: tokenIdList }, object);

export const parseTokenize = (body: unknown) => {
  const fields = checked(tokenizeSchema, body);
  if ((fields.prompt === undefined) === (fields.messages === undefined)) {
    const found = fields.prompt === undefined ? 'neither is given' : 'both are given';
    throw new HttpError(400, `${found}: wanted exactly one of prompt and messages`, 'prompt');
  }
  return {
    ...fields,
    messages: fields.messages?.map(plainMessage),
    addSpecialTokens: specialTokensOf(fields.add_special_tokens, fields.messages ? 'messages' : 'text'),
    end: promptEndOf(fields),
  };
};

export const parseDetokenize = (body: unknown) => checked(detokenizeSchema, body);
