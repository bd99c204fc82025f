/** Tokenizers of a few tokens, written by hand. */
import { memorySource } from '../../src/model/load.ts';
import { Tokenizer } from '../../src/model/text/tokenizer.ts';

/** A tokenizer.json without normalizer and added tokens; vocabulary by id. */
export const bpe = (
  vocab: readonly string[],
  parts: { [part: string]: unknown; merges?: readonly string[][] },
) => {
  const { merges = [], ...others } = parts;
  const ids = Object.fromEntries(vocab.map((token, id) => [token, id]));
  const model = { type: 'BPE', unk_token: vocab[0], byte_fallback: true, vocab: ids, merges };
  const none = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null };
  return { ...none, decoder: null, ...others, model };
};
export const loadJson = (json: { model: { vocab: object } }) => {
  const files = memorySource('m', { 'tokenizer.json': JSON.stringify(json) });
  return Tokenizer.load(files, Object.keys(json.model.vocab).length);
};
/** Llama 2's decoder. */
export const pieceDecoder = {
  type: 'Sequence',
  decoders: [
    { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    { type: 'Strip', content: ' ', start: 1, stop: 0 },
  ],
};
