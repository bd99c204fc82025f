/**
 * Mooncake's JSONL: timestamp in ms, lengths, an id for each 512 tokens. Also NVIDIA Dynamo's additions: session_id,
 * delay in ms after the session's previous turn, and alternative names.
 */
import { z } from 'zod';
import { type FormatReader, ids, parseObject, time, tokens, wrongCount } from './format.ts';

const row = z
  .object({
    // A missing value may be null: so pandas writes columns that not every row has.
    timestamp: time.nullish(),
    created_time: time.nullish(),
    input_length: tokens.nullish(),
    input_tokens: tokens.nullish(),
    output_length: tokens.nullish(),
    output_tokens: tokens.nullish(),
    hash_ids: ids('a list of whole numbers from 0 to 2^53 - 1').nullish(),
    session_id: z.union([z.string(), z.number()], { error: 'a name or a number' }).nullish(),
    delay: time.nullish(),
    delay_ms: time.nullish(),
    wait_for: z.unknown().optional(),
  })
  .transform(({ input_length, input_tokens, output_length, output_tokens, ...rest }) => ({
    ...rest,
    inputTokens: input_length ?? input_tokens,
    outputTokens: output_length ?? output_tokens,
  }));

/** Whether a row waits for other requests, as in Dynamo's agentic traces, which say so in addition to the session. */
const waitsForOthers = (waitFor: unknown): boolean =>
  waitFor != null && !(Array.isArray(waitFor) && waitFor.length === 0);

/** Tokens of an id, if a file does not say. */
export const MOONCAKE_BLOCK = 512;

export const mooncake: FormatReader = {
  name: 'mooncake',
  traceBlockSize: MOONCAKE_BLOCK,
  unit: 'line',
  parse(text, context) {
    const parsed = parseObject(text, row);
    if ('bad' in parsed) return parsed;
    const { inputTokens, outputTokens, session_id, ...rest } = parsed.value;
    if (waitsForOthers(rest.wait_for))
      return { bad: 'it waits for other requests (wait_for): agent traces are not supported' };
    if (inputTokens == null) return { bad: 'input_length is missing' };
    if (outputTokens == null) return { bad: 'output_length is missing' };
    const hashIds = rest.hash_ids ?? null;
    const wrong = hashIds && wrongCount(hashIds, inputTokens, context);
    if (wrong) return { bad: wrong };
    const delayMs = rest.delay ?? rest.delay_ms ?? null;
    return [
      {
        timeMs: rest.timestamp ?? rest.created_time ?? null,
        inputTokens,
        outputTokens,
        hashIds,
        origin:
          session_id == null ? { kind: 'unsaid' } : { kind: 'session', id: String(session_id), delayMs },
      },
    ];
  },
};
