/** The id of the tokeniser's own end token, which ends answers as the configs' end tokens do (as in vLLM). */
import { z } from 'zod';
import type { FileSource } from '../../platform/types.ts';
import { readJson } from './json-file.ts';

const token = z.looseObject({ content: z.string() });
const configSchema = z.looseObject({
  eos_token: z.union([z.string(), token]).nullish().catch(null),
  /** By id. Not in every file. */
  added_tokens_decoder: z.record(z.string(), token).catch({}),
});
const tokenizerSchema = z.looseObject({
  added_tokens: z.array(token.extend({ id: z.int() })).catch([]),
  model: z.looseObject({ vocab: z.record(z.string(), z.int()).catch({}) }).optional(),
});

/** null if tokenizer_config.json names no end token, or no file gives its id. Throws ModelError for files that are not JSON. */
export async function tokenizerEndToken(files: FileSource): Promise<number | null> {
  const config = await readJson(files, 'tokenizer_config.json', configSchema);
  const end = typeof config?.eos_token === 'string' ? config.eos_token : config?.eos_token?.content;
  if (!config || end === undefined) return null;
  for (const [id, { content }] of Object.entries(config.added_tokens_decoder))
    if (content === end) return Number(id);
  // Large, so only read if needed.
  const tokenizer = await readJson(files, 'tokenizer.json', tokenizerSchema);
  const added = tokenizer?.added_tokens.find(({ content }) => content === end);
  return added?.id ?? tokenizer?.model?.vocab[end] ?? null;
}
