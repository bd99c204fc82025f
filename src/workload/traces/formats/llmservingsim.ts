/** LLMServingSim's JSONL: lengths, arrival in ns, and the token ids themselves, which are compared in blocks of 16. */
import { z } from 'zod';
import { prefixHashes } from '../prefix-hashes.ts';
import { type FormatReader, ids, parseObject, time, tokens } from './format.ts';

const row = z.object({
  input_toks: tokens,
  output_toks: tokens,
  arrival_time_ns: time,
  input_tok_ids: ids('a list of token ids').nullish(),
});

export const llmservingsim: FormatReader = {
  name: 'llmservingsim',
  traceBlockSize: 16,
  unit: 'line',
  parse(text, { traceBlockSize }) {
    const parsed = parseObject(text, row);
    if ('bad' in parsed) return parsed;
    const { input_toks, output_toks, arrival_time_ns, input_tok_ids } = parsed.value;
    if (input_tok_ids && input_tok_ids.length !== input_toks)
      return { bad: `${input_tok_ids.length} input_tok_ids, and input_toks is ${input_toks}` };
    return [
      {
        timeMs: arrival_time_ns / 1e6,
        inputTokens: input_toks,
        outputTokens: output_toks,
        hashIds: input_tok_ids ? prefixHashes(input_tok_ids, traceBlockSize) : null,
        origin: { kind: 'unsaid' },
      },
    ];
  },
};
