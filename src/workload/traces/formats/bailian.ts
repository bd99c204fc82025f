/**
 * Alibaba's Qwen-Bailian JSONL: timestamp in s, lengths, an id for each 16 tokens, and which chat continues which. An
 * id stands for the block's own content, wherever it occurs.
 */
import { z } from 'zod';
import { prefixHashes } from '../prefix-hashes.ts';
import { type FormatReader, ids, parseObject, time, tokens, wrongCount } from './format.ts';

const chatId = z.union([z.string(), z.number()], { error: 'a name or a number' });

const row = z.object({
  chat_id: chatId,
  parent_chat_id: chatId.nullish(),
  timestamp: time,
  input_length: tokens,
  output_length: tokens,
  hash_ids: ids('a list of whole numbers from 0 to 2^53 - 1').nullish(),
});

export const bailian: FormatReader = {
  name: 'bailian',
  traceBlockSize: 16,
  unit: 'line',
  parse(text, context) {
    const parsed = parseObject(text, row);
    if ('bad' in parsed) return parsed;
    const { chat_id, parent_chat_id, timestamp, input_length, output_length, hash_ids } = parsed.value;
    const wrong = hash_ids && wrongCount(hash_ids, input_length, context);
    if (wrong) return { bad: wrong };
    const parent = parent_chat_id == null || String(parent_chat_id) === '-1' ? null : String(parent_chat_id);
    return [
      {
        timeMs: 1000 * timestamp,
        inputTokens: input_length,
        outputTokens: output_length,
        hashIds: hash_ids ? prefixHashes(hash_ids, 1) : null,
        origin: { kind: 'chat', id: String(chat_id), parent },
      },
    ];
  },
};
