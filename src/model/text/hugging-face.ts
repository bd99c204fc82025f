/** Makes the library's tokeniser, and corrects what it does otherwise than Hugging Face's own one. */
import { Tokenizer } from '@huggingface/tokenizers';

type Json = Record<string, unknown>;

/** What the library's decoders may have, alone or in a sequence. */
interface Decoder {
  decoders?: Decoder[];
  text_decoder?: TextDecoder;
}

/** Throws an error of the library if it cannot use the files' contents. */
export function makeTokenizer(json: Json, config: Json): Tokenizer {
  const tokenizer = new Tokenizer(
    { ...json, pre_tokenizer: withAllDigits(json.pre_tokenizer as Json | null) },
    config,
  );
  const decoder = tokenizer.decoder as Decoder | null;
  // ByteFallback's would remove U+FEFF from the beginning of each run of bytes.
  for (const part of decoder?.decoders ?? [decoder])
    if (part?.text_decoder) part.text_decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return tokenizer;
}

/** The library's Digits knows 0 to 9 only. Hugging Face's knows all of Unicode's, as in '½' and '٣'. */
function withAllDigits(preTokenizer: Json | null): Json | null {
  if (preTokenizer?.type === 'Sequence') {
    const parts = preTokenizer.pretokenizers as (Json | null)[];
    return { ...preTokenizer, pretokenizers: parts.map(withAllDigits) };
  }
  if (preTokenizer?.type !== 'Digits') return preTokenizer;
  const Regex = preTokenizer.individual_digits ? '\\p{N}' : '\\p{N}+';
  return { type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false };
}
