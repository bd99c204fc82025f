/**
 * A tokeniser for models with random weights, for any vocabulary size. Every id is one distinct character, so any
 * sequence of ids survives conversion to text and back, and any text can be encoded (unknown characters become one id).
 * It is BPE without merges, in the files of a Hugging Face directory. There are no added tokens, because ordinary ids
 * could spell them.
 */
import { presetArchitecture, presetTokenIds } from '../architecture/presets.ts';
import type { Architecture } from '../types.ts';

/** Characters of the special ids: Unicode control pictures, in the order of presetTokenIds. */
const specialCharacters = {
  endOfTurn: '\u2404',
  user: '\u2405',
  assistant: '\u2406',
  system: '\u2401',
  unknown: '\u241a',
} as const satisfies Record<keyof typeof presetTokenIds, string>;

/**
 * Code point ranges of the ordinary ids, in the order a growing vocabulary uses them. They contain only characters that
 * NFC and NFKC leave unchanged and that never combine with a neighbour. Explicit ranges instead of Unicode properties
 * give the same vocabulary in every JavaScript engine.
 */
// biome-ignore format: a table
const ranges: readonly (readonly [number, number])[] = [
  [0x20, 0x7e], [0x0a, 0x0a], [0x09, 0x09], // printable ASCII, newline, tab
  [0xa1, 0xa7], [0xa9, 0xa9], [0xab, 0xac], [0xae, 0xae], [0xb0, 0xb1], [0xb6, 0xb7], [0xbb, 0xbb], [0xbf, 0xff], // Latin-1
  [0x100, 0x131], [0x134, 0x13e], [0x141, 0x148], [0x14a, 0x17e], [0x180, 0x1c3], [0x1cd, 0x1f0], [0x1f4, 0x2ad], // Latin
  [0x388, 0x38a], [0x38c, 0x38c], [0x38e, 0x3a1], [0x3a3, 0x3cf], // Greek
  [0x400, 0x481], [0x48a, 0x52f], // Cyrillic
  [0x3041, 0x3096], [0x30a1, 0x30fa], // kana
  [0x4e00, 0x9fa5], // Han
  [0xac00, 0xd7a3], // Hangul
  [0x3400, 0x4db5], [0x20000, 0x2a6d6], [0x2a700, 0x2b734], [0x2b740, 0x2b81d], [0x2b820, 0x2cea1], // rarer Han
  [0xf0000, 0xffffd], [0x100000, 0x10fffd], // private use
  [0x40000, 0x4fffd], // unassigned
];

const chatTemplate = [
  '{% for message in messages %}',
  `{% if message['role'] == 'system' %}{{ '${specialCharacters.system}' + message['content'] }}`,
  `{% elif message['role'] == 'user' %}{{ '${specialCharacters.user}' + message['content'] }}`,
  `{% elif message['role'] == 'assistant' %}{{ '${specialCharacters.assistant}' + message['content'] + '${specialCharacters.endOfTurn}' }}`,
  `{% else %}{{ raise_exception('the roles are system, user and assistant, not ' + message['role']) }}{% endif %}`,
  '{% endfor %}',
  `{% if add_generation_prompt %}{{ '${specialCharacters.assistant}' }}{% endif %}`,
].join('');

/** The character of each id. */
export function presetCharacters(vocabSize: number): string[] {
  const characters: string[] = [];
  for (const [name, id] of Object.entries(presetTokenIds)) {
    characters[id] = specialCharacters[name as keyof typeof presetTokenIds];
  }
  for (const [first, last] of ranges) {
    for (let point = first; point <= last && characters.length < vocabSize; point++) {
      characters.push(String.fromCodePoint(point));
    }
  }
  return characters;
}

/**
 * Contents by file name: tokenizer.json, tokenizer_config.json with the chat template, and a small config.json, which
 * together satisfy transformers' AutoTokenizer. Throws ModelError if the name is not a preset.
 */
export function presetTokenizerFiles(name: string): Record<string, string> {
  const architecture = presetArchitecture(name);
  return {
    'tokenizer.json': `${JSON.stringify(tokenizerJson(architecture.vocabSize))}\n`,
    'tokenizer_config.json': `${JSON.stringify(tokenizerConfig(architecture), null, 2)}\n`,
    'config.json': `${JSON.stringify(tokenizerModelConfig(architecture), null, 2)}\n`,
  };
}

function tokenizerJson(vocabSize: number) {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: { type: 'Fuse' },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: specialCharacters.unknown,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(presetCharacters(vocabSize).map((character, id) => [character, id])),
      merges: [],
    },
  };
}

function tokenizerConfig(architecture: Architecture) {
  return {
    tokenizer_class: 'PreTrainedTokenizerFast',
    clean_up_tokenization_spaces: false,
    eos_token: specialCharacters.endOfTurn,
    unk_token: specialCharacters.unknown,
    model_max_length: architecture.maxModelLen,
    chat_template: chatTemplate,
  };
}

/**
 * Not the model's shape, only what AutoTokenizer needs to use tokenizer.json unchanged. model_type is llama for every
 * preset, because transformers 5 uses Qwen2Tokenizer for any model_type qwen2.
 */
function tokenizerModelConfig(architecture: Architecture) {
  return {
    model_type: 'llama',
    vocab_size: architecture.vocabSize,
    max_position_embeddings: architecture.maxModelLen,
    bos_token_id: null,
    eos_token_id: presetTokenIds.endOfTurn,
  };
}
