import { readFileSync } from 'node:fs';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type PresetName,
  presetArchitecture,
  presetNames,
  presetTokenIds,
} from '../../src/model/architecture/presets.ts';
import { loadTokenizer, memorySource, type TextModel } from '../../src/model/load.ts';
import { presetCharacters, presetTokenizerFiles } from '../../src/model/text/preset-tokenizer.ts';
import { Tokenizer } from '../../src/model/text/tokenizer.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { bpe, loadJson, pieceDecoder } from './small-tokenizer.ts';

describe.each(presetNames)('the tokenizer of %s', (name) => {
  const { vocabSize } = presetArchitecture(name);
  const files = presetTokenizerFiles(name);
  let plain: HuggingFaceTokenizer;
  let model: TextModel;
  beforeAll(async () => {
    plain = new HuggingFaceTokenizer(
      JSON.parse(files['tokenizer.json']!),
      JSON.parse(files['tokenizer_config.json']!),
    );
    model = await loadTokenizer(name, null);
  });

  it('decodes and encodes every sequence of ids back to itself', () => {
    const ids = fc.array(fc.nat({ max: vocabSize - 1 }), { minLength: 1, maxLength: 300, size: 'max' });
    fc.assert(
      fc.property(ids, (tokens) => {
        const text = plain.decode(tokens);
        expect(plain.encode(text, { add_special_tokens: false }).ids).toEqual(tokens);
        expect(plain.encode(text).ids).toEqual(tokens);
        expect(model.tokenizer.encode(model.tokenizer.decode(tokens))).toEqual(tokens);
        for (const form of ['NFC', 'NFKC']) expect(text.normalize(form)).toBe(text);
      }),
      { numRuns: 60 },
    );
  });

  it('states the largest number of characters per token', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200, size: 'max' }), (text) => {
        const { length } = model.tokenizer.encode(text);
        expect(text.length).toBeLessThanOrEqual(length * model.tokenizer.mostCharacters);
      }),
      { numRuns: 60 },
    );
    expect(model.tokenizer.mostCharacters).toBe(2);
  });

  it('decodes and encodes all ids in one text', () => {
    const all = Array.from({ length: vocabSize }, (_, id) => id);
    const text = model.tokenizer.decode(all);
    expect([...text].length).toBe(vocabSize);
    expect(model.tokenizer.encode(text)).toEqual(all);
  });

  it('encodes any text with one id per character', () => {
    const known = new Set(presetCharacters(vocabSize));
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200, size: 'max' }), (text) => {
        const ids = model.tokenizer.encode(text);
        expect(ids.length).toBe([...text].length);
        expect(ids.every((id) => id >= 0 && id < vocabSize)).toBe(true);
        [...text].forEach((character, i) => {
          if (!known.has(character)) expect(ids[i]).toBe(presetTokenIds.unknown);
        });
      }),
      { numRuns: 60 },
    );
    expect(model.tokenizer.encode('Hello, world!\n\t~').includes(presetTokenIds.unknown)).toBe(false);
  });

  it('renders system, user and assistant roles, ends answers with the end token, and refuses other roles', async () => {
    const encode = (text: string) => model.tokenizer.encode(text);
    const { endOfTurn, user, assistant, system } = presetTokenIds;
    const [a, b, c, d] = model.tokenizer.encode('abcd');
    const messages = [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'assistant', content: 'c' },
      { role: 'user', content: 'd' },
    ];
    expect(await model.chat.encodePrompt(messages, encode)).toEqual([
      system,
      a,
      user,
      b,
      assistant,
      c,
      endOfTurn,
      user,
      d,
      assistant,
    ]);
    const refused = model.chat.encodePrompt([{ role: 'tool', content: 'a' }], encode);
    await expect(refused).rejects.toThrow('not tool');
    expect(model.architecture.eosTokenIds).toEqual([endOfTurn]);
  });
});

describe('a tokenizer', () => {
  const { texts } = JSON.parse(readFileSync('models/recall/expected.json', 'utf8')) as {
    texts: { text: string; ids: number[]; decoded: string }[];
  };
  const recall = loadTokenizer('recall', directorySource('models/recall'));

  it.each(texts)('agrees with Hugging Face on $text', async ({ text, ids, decoded }) => {
    const { tokenizer } = await recall;
    expect(tokenizer.encode(text)).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(decoded);
  });

  it('decodes no ids to no text, and skips special tokens only on request', async () => {
    const { tokenizer } = await recall;
    expect([tokenizer.decode([]), tokenizer.encode('')]).toEqual(['', []]);
    const ids = tokenizer.encode('<|user|>hi<|end|>');
    expect(tokenizer.decode(ids)).toBe('<|user|>hi<|end|>');
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe('hi');
    expect(tokenizer.decode([0], { skipSpecialTokens: true })).toBe('');
    expect(tokenizer.decode([999_999])).toBe('');
    expect(tokenizer.decode([0])).toBe('<|end|>');
    const spelled = (text: string) => tokenizer.encode(text).map((id) => tokenizer.token(id));
    expect(spelled('in the é<|end|>')).toEqual(['in', 'Ġthe', 'Ġ', 'Ã', '©', '<|end|>']);
    const stream = (skipSpecialTokens: boolean) => {
      const decoder = tokenizer.streamDecoder({ skipSpecialTokens });
      return [...ids.map((id) => decoder.push(id)), decoder.end()].join('');
    };
    expect([stream(false), stream(true)]).toEqual(['<|user|>hi<|end|>', 'hi']);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 1023 }), { maxLength: 60, size: 'max' }), (some) => {
        const decoder = tokenizer.streamDecoder({ skipSpecialTokens: true });
        const text = some.map((id) => decoder.push(id)).join('') + decoder.end();
        expect(text).toBe(tokenizer.decode(some, { skipSpecialTokens: true }));
      }),
    );
  });

  it('adds the special tokens of its post-processor around a whole text', async () => {
    const files = presetTokenizerFiles('nano');
    const json = JSON.parse(files['tokenizer.json']!) as Record<string, unknown>;
    const { system, endOfTurn } = presetTokenIds;
    const characters = presetCharacters(512);
    const around = async (single: readonly object[]) => {
      const post_processor = { type: 'TemplateProcessing', single, pair: [], special_tokens: {} };
      const text = JSON.stringify({ ...json, post_processor });
      const tokenizer = await Tokenizer.load(memorySource('m', { ...files, 'tokenizer.json': text }), 512);
      return tokenizer.withSpecialTokens([7, 8]);
    };
    const whole = { Sequence: { id: 'A', type_id: 0 } };
    const special = (id: number) => ({ SpecialToken: { id: characters[id], type_id: 0 } });
    expect(await around([special(system), whole])).toEqual([system, 7, 8]);
    expect(await around([special(system), whole, special(endOfTurn)])).toEqual([system, 7, 8, endOfTurn]);
    expect(await around([whole])).toEqual([7, 8]);
    expect((await recall).tokenizer.withSpecialTokens([7, 8])).toEqual([7, 8]);
  });

  it('streams the same text as decoding at once, in whole characters', async () => {
    const { tokenizer } = await recall;
    const stream = (ids: readonly number[]) => {
      const decoder = tokenizer.streamDecoder();
      return [...ids.map((id) => decoder.push(id)), decoder.end()];
    };
    const text = 'na\u00efve \u6f22\u5b57 \ud83d\ude42 and \ud83d\ude42!';
    const pieces = stream(tokenizer.encode(text));
    expect(pieces.join('')).toBe(text);
    expect(pieces.join('|')).not.toContain('\ufffd');
    expect(pieces.filter((piece) => piece === '').length).toBeGreaterThan(3);
    const smile = tokenizer.encode('\ud83d\ude42');
    expect(stream(smile.slice(0, -1)).at(-1)).toBe('\ufffd');
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 1023 }), { maxLength: 60, size: 'max' }), (ids) => {
        expect(stream(ids).join('')).toBe(tokenizer.decode(ids));
      }),
    );
  });

  it('knows the bytes of each token, also of parts of a character', async () => {
    const { tokenizer } = await recall;
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60, size: 'max' }), (text) => {
        const bytes = tokenizer.encode(text).flatMap((id) => tokenizer.bytes(id) ?? []);
        expect(Buffer.from(bytes).toString()).toBe(Buffer.from(text).toString());
      }),
    );
    const [first, ...others] = tokenizer.encode('漢').map((id) => tokenizer.bytes(id));
    expect([first, ...others].flat()).toEqual([0xe6, 0xbc, 0xa2]);
    expect(others.length).toBeGreaterThan(0);
  });

  it('ignores clean_up_tokenization_spaces, and streams the same text', async () => {
    const files = presetTokenizerFiles('nano');
    const config = { ...JSON.parse(files['tokenizer_config.json']!), clean_up_tokenization_spaces: true };
    const asked = { ...files, 'tokenizer_config.json': JSON.stringify(config) };
    const tokenizer = await Tokenizer.load(memorySource('m', asked), 512);
    for (const text of ["say 'maybe' !", "x != y , I do n't ."]) {
      const ids = tokenizer.encode(text);
      expect(tokenizer.decode(ids)).toBe(text);
      const decoder = tokenizer.streamDecoder();
      expect(ids.map((id) => decoder.push(id)).join('') + decoder.end()).toBe(text);
    }
  });

  it('keeps the leading space of the first streamed word after a prompt', async () => {
    const vocab = ['<unk>', '<s>', '▁it', '▁is', '▁so', '<0xE6>', '<0xBC>', '<0xA2>'];
    const flags = { special: true, normalized: false, single_word: false, lstrip: false, rstrip: false };
    const added_tokens = [{ id: 1, content: '<s>', ...flags }];
    const tokenizer = await loadJson(bpe(vocab, { added_tokens, decoder: pieceDecoder }));
    const said = (after: number[], ids: number[], skipSpecialTokens = true) => {
      const decoder = tokenizer.streamDecoder({ skipSpecialTokens, after });
      return ids.map((id) => decoder.push(id)).join('') + decoder.end();
    };
    expect(said([], [2, 3])).toBe('it is');
    expect(said([1, 2], [3, 4])).toBe(' is so');
    expect(said([1], [2, 3])).toBe('it is');
    expect(said([1], [2, 3], false)).toBe(' it is');
    expect(said([2, 5, 6], [7, 3])).toBe('\ufffd is');
    expect([2, 5, 6, 7].map((id) => tokenizer.bytes(id))).toEqual([[105, 116], [0xe6], [0xbc], [0xa2]]);
  });

  it('splits off all digits of Unicode, as Hugging Face does', async () => {
    // '½' is the bytes Â½, and '٣' the bytes Ù£.
    const vocab = ['<unk>', 'Ġ', 'Â', '½', 'ĠÂ', 'Â½', 'Ù', '£', 'Ù£', 'Â½Ù£', '1', 'Ġ1'];
    const merges = [
      ['Ġ', 'Â'],
      ['Â', '½'],
      ['Ù', '£'],
      ['Â½', 'Ù£'],
      ['Ġ', '1'],
    ];
    const encode = async (individual_digits: boolean) => {
      const digits = { type: 'Digits', individual_digits };
      const bytes = { type: 'ByteLevel', add_prefix_space: false, use_regex: false };
      const pre_tokenizer = { type: 'Sequence', pretokenizers: [digits, bytes] };
      const tokenizer = await loadJson(bpe(vocab, { pre_tokenizer, merges }));
      return tokenizer.encode(' ½٣ 1').map((id) => tokenizer.token(id));
    };
    expect(await encode(true)).toEqual(['Ġ', 'Â½', 'Ù£', 'Ġ', '1']);
    expect(await encode(false)).toEqual(['Ġ', 'Â½Ù£', 'Ġ', '1']);
  });

  it.each([pieceDecoder, { type: 'ByteFallback' }])(
    'keeps U+FEFF that is spelled in bytes',
    async (decoder) => {
      const tokenizer = await loadJson(bpe(['<unk>', 'a', '<0xEF>', '<0xBB>', '<0xBF>'], { decoder }));
      const ids = [1, 2, 3, 4, 1];
      expect(tokenizer.decode(ids)).toBe('a\ufeffa');
      const stream = tokenizer.streamDecoder();
      expect(ids.map((id) => stream.push(id)).join('') + stream.end()).toBe('a\ufeffa');
    },
  );

  it("may have special tokens, but no other tokens, beyond the model's vocabulary", async () => {
    const files = presetTokenizerFiles('nano');
    const json = JSON.parse(files['tokenizer.json']!) as Record<string, unknown>;
    const load = (special: boolean) => {
      const flags = { special, normalized: false, single_word: false, lstrip: false, rstrip: false };
      const text = JSON.stringify({ ...json, added_tokens: [{ id: 512, content: '<image>', ...flags }] });
      return Tokenizer.load(memorySource('m', { ...files, 'tokenizer.json': text }), 512);
    };
    expect((await load(true)).encode('<image>')).toEqual([512]);
    await expect(load(false)).rejects.toThrow("has 513 token ids but the model's vocabulary has 512");
  });

  it('is refused if an added token matches whole words only, which the library ignores', async () => {
    const flags = { special: true, normalized: false, single_word: true, lstrip: false, rstrip: false };
    const added_tokens = [{ id: 1, content: '<word>', ...flags }];
    await expect(loadJson(bpe(['a', '<word>'], { added_tokens }))).rejects.toThrow(
      "m/tokenizer.json: the added token '<word>' has single_word, which is not supported: set it to false",
    );
  });

  it('reports missing and invalid files', async () => {
    await expect(loadTokenizer('x', memorySource('m', {}))).rejects.toThrow('m has no config.json');
    await expect(Tokenizer.load(memorySource('m', {}), 8)).rejects.toThrow('m has no tokenizer.json');
    const load = (json: string) => Tokenizer.load(memorySource('m', { 'tokenizer.json': json }), 100);
    await expect(load('{')).rejects.toThrow(/m\/tokenizer.json is not JSON/);
    await expect(load('{}')).rejects.toThrow(/m\/tokenizer.json cannot be used/);
    const nano = presetTokenizerFiles('nano' satisfies PresetName)['tokenizer.json']!;
    await expect(load(nano)).rejects.toThrow("has 512 token ids but the model's vocabulary has 100");
  });
});
