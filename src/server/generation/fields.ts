/**
 * Schemas of the fields that the request bodies share. As in vLLM, unknown fields are ignored. Known fields that kvferry
 * does not support are rejected (refused-fields.ts).
 */
import { z } from 'zod';
import { shownJson } from '../../config/shown.ts';
import { hasHalfPair } from '../../engine/request.ts';
import { HttpError } from '../http/http-error.ts';
import { conversationIdText, idText } from '../http/ids.ts';

const wanted = (what: string) => ({ error: what });

const whole = (min: number, what: string) => z.number(wanted(what)).int(wanted(what)).min(min, wanted(what));

export const flag = z.boolean(wanted('true or false')).nullish();

/** Every generated token is compared with each. */
const MOST_STOP_TOKENS = 1024;
const MOST_STOPS = 64;
const MOST_TOP_LOGPROBS = 20;
const MOST_BAD_WORDS = 128;
/** Characters. */
const LONGEST_BAD_WORD = 128;
/** Characters. */
const LONGEST_SALT = 1024;

const stopText = z
  .string(wanted('a string, or a list of strings'))
  .min(1, wanted('a string that is not empty'));

const isTokenId = (id: unknown): boolean => Number.isSafeInteger(id) && (id as number) >= 0;

/** Checked in one pass up to the first invalid id: a schema for each element takes ten times as long. */
export const tokenIdList = z
  .custom<number[]>(Array.isArray, wanted('a list of token ids'))
  .superRefine((ids, context) => {
    const at = ids.findIndex((id) => !isTokenId(id));
    if (at >= 0) context.addIssue({ code: 'custom', path: [at], message: 'token ids' });
  });

/** The length is checked before the elements. */
const shortList = <T extends z.ZodType>(item: T, list: string, most: number, longest: string) =>
  z.array(z.unknown(), wanted(list)).max(most, wanted(longest)).pipe(z.array(item));

/** The supported fields of vLLM's SamplingParams. */
export const samplingFields = {
  max_tokens: whole(1, 'a whole number, 1 or more').nullish(),
  min_tokens: whole(0, 'a whole number, 0 or more').nullish(),
  temperature: z
    .number(wanted('a number, 0 or more'))
    .min(0, wanted('a number, 0 or more (0 is greedy)'))
    .nullish(),
  top_p: z
    .number(wanted('a number above 0, up to 1'))
    .gt(0, wanted('a number above 0, up to 1'))
    .max(1, wanted('a number above 0, up to 1'))
    .nullish(),
  /** -1 and 0: all tokens. */
  top_k: whole(-1, 'a whole number; -1 or 0 for all tokens').nullish(),
  /** 64 bits, as OpenAI's clients send. JSON numbers beyond 53 bits lose their low bits, so neighbouring seeds coincide. */
  seed: z
    .number(wanted('a whole number'))
    .refine((seed) => Number.isInteger(seed), wanted('a whole number'))
    .refine((seed) => Math.abs(seed) <= 2 ** 63, wanted('a whole number of 64 bits'))
    .transform((seed) => seed % 2 ** 53)
    .nullish(),
  stop: z
    .union(
      [stopText, shortList(stopText, 'a list of strings', MOST_STOPS, `at most ${MOST_STOPS} strings`)],
      {
        error: ({ input }) =>
          Array.isArray(input) && input.length > MOST_STOPS
            ? `at most ${MOST_STOPS} strings`
            : 'a string, or a list of strings',
      },
    )
    .nullish(),
  stop_token_ids: shortList(
    whole(0, 'token ids'),
    'a list of token ids',
    MOST_STOP_TOKENS,
    `at most ${MOST_STOP_TOKENS} token ids`,
  ).nullish(),
  bad_words: shortList(
    z
      .string(wanted('a string'))
      .min(1, wanted('a string that is not empty'))
      .max(LONGEST_BAD_WORD, wanted(`at most ${LONGEST_BAD_WORD} characters`)),
    'a list of strings',
    MOST_BAD_WORDS,
    `at most ${MOST_BAD_WORDS} strings`,
  ).nullish(),
  allowed_token_ids: tokenIdList
    .refine((ids) => ids.length > 0, wanted('a list of at least one token id'))
    .nullish(),
  include_stop_str_in_output: flag,
  skip_special_tokens: flag,
  ignore_eos: flag,
  n: whole(1, 'a whole number, 1 or more').nullish(),
};

export const topLogprobs = whole(0, `a whole number from 0 to ${MOST_TOP_LOGPROBS}`).max(
  MOST_TOP_LOGPROBS,
  wanted(`a whole number from 0 to ${MOST_TOP_LOGPROBS}`),
);

/** Whether special tokens are added (add_special_tokens); default: true for text. Throws HttpError 400 if true for messages. */
export function specialTokensOf(given: z.output<typeof flag>, prompt: 'text' | 'messages'): boolean {
  if (prompt === 'text') return given ?? true;
  if (!given) return false;
  const message =
    'add_special_tokens is true: wanted false for messages, because the chat template writes their special tokens';
  throw new HttpError(400, message, 'add_special_tokens');
}

/** Fields that do not depend on the kind of prompt. */
export const requestFields = {
  model: z.string(wanted('a string')).nullish(),
  stream: flag,
  stream_options: z
    .looseObject(
      { include_usage: flag, continuous_usage_stats: flag },
      wanted('an object such as {"include_usage": true}'),
    )
    .nullish(),
  cache_salt: z
    .string(wanted('a string'))
    .min(1, wanted('a string that is not empty'))
    .max(LONGEST_SALT, wanted(`at most ${LONGEST_SALT} characters`))
    .refine((salt) => !hasHalfPair(salt), wanted('a string without half of a surrogate pair'))
    .nullish(),
  request_id: idText.nullish(),
  kv_transfer_params: z.record(z.string(), z.unknown(), wanted('an object')).nullish(),
  conversation_id: conversationIdText.nullish(),
  session_id: conversationIdText.nullish(),
  return_token_ids: flag,
};

/** Parses the body with the schema. Throws HttpError 400 that names the field. */
export function checked<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = deepest(result.error.issues[0]!);
  const field = issue.path.map(String).join('.');
  if (field === '') throw new HttpError(400, `the body is ${shownJson(body)}: wanted ${issue.message}`);
  const found = issue.path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key],
    body,
  );
  throw new HttpError(400, `${field} is ${shownJson(found)}: wanted ${issue.message}`, field);
}

/** If no member of a union matches: the error of the member that got deepest into the value, if any got inside it. */
function deepest(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union') return issue;
  const inner = issue.errors.flat().sort((a, b) => b.path.length - a.path.length)[0];
  if (!inner || inner.path.length === 0) return issue;
  return deepest({ ...inner, path: [...issue.path, ...inner.path] });
}
