import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { type GeneratorSpec, generateConversations, parseGenerator } from '../../src/workload/generate.ts';
import { pr32553 } from '../../src/workload/pr32553.ts';

const drawn = { kind: 'drawn', lowest: 8, highest: 4000 } as const;
const generate = (options: Partial<Parameters<typeof generateConversations>[1]> = {}, spec = pr32553) =>
  generateConversations(spec, { scale: 1, seed: 0, tokens: drawn, ...options });
const ids = (turn: ReturnType<typeof generate>[number]['turns'][number]) =>
  turn.content.kind === 'tokens' ? turn.content.tokenIds : [];

describe("conversations from vLLM's generator files", () => {
  test('have the shape of PR 32553: 6 to 9 turns, a common prefix and one of their own', () => {
    const made = generate();
    expect(made.map(({ id }) => id)).toEqual(Array.from({ length: 24 }, (_, i) => `CONV_ID_${i}`));
    for (const { turns } of made) {
      expect(turns.length >= 6 && turns.length <= 9).toBe(true);
      expect(ids(turns[0]!).slice(0, 500)).toEqual(ids(made[0]!.turns[0]!).slice(0, 500));
      for (const [i, turn] of turns.entries()) {
        expect(turn.inputTokens).toBe(ids(turn).length);
        if (i > 0) expect(turn.inputTokens >= 120 && turn.inputTokens <= 160).toBe(true);
        expect(turn.outputTokens! >= 800 && turn.outputTokens! <= 1200).toBe(true);
      }
    }
    expect(ids(made[0]!.turns[0]!)[500]).not.toBe(ids(made[1]!.turns[0]!)[500]);
    const prefixes = (of: typeof made) => of.map(({ turns }) => turns[0]!.inputTokens - 500);
    expect(Math.max(...prefixes(made))).toBeLessThanOrEqual(10_160);
    // They are scaled to their average before any is cut off; how much is cut off depends on the seed.
    const average = { distribution: 'lognormal', average: 4000 } as const;
    const uncut = { ...pr32553, prompt_input: { ...pr32553.prompt_input, prefix_num_tokens: average } };
    const mean = prefixes(generate({}, uncut)).reduce((a, b) => a + b) / 24;
    expect(mean >= 4119 && mean <= 4161).toBe(true);
  });

  test('have every length divided by a scale, but no count', () => {
    const [whole, scaled] = [generate(), generate({ scale: 16 })];
    expect(scaled.map(({ turns }) => turns.length)).toEqual(whole.map(({ turns }) => turns.length));
    for (const [i, { turns }] of scaled.entries()) {
      for (const [t, turn] of turns.entries()) {
        expect(turn.outputTokens).toBe(Math.round(whole[i]!.turns[t]!.outputTokens! / 16));
        if (t > 0) expect(turn.inputTokens).toBe(Math.round(whole[i]!.turns[t]!.inputTokens / 16));
      }
    }
    const lengths = generate({ scale: 1e6 }).flatMap(({ turns }) => turns.map((t) => t.outputTokens));
    expect(new Set(lengths)).toEqual(new Set([1]));
  });

  test('depend on the seed alone', () => {
    expect(generate({ seed: 5 })).toEqual(generate({ seed: 5 }));
    expect(generate({ seed: 5 })).not.toEqual(generate({ seed: 6 }));
  });

  test('are the first of a larger number, if a number is given', () => {
    const many = generate({ scale: 64, count: 1100 });
    expect(many).toHaveLength(1100);
    expect(new Set(many.map(({ id }) => id)).size).toBe(1100);
    for (const count of [1, 30, 1050]) expect(generate({ scale: 64, count })).toEqual(many.slice(0, count));
  });

  test('are refused before any is generated if they would not fit into memory', () => {
    const constant = (value: number) => ({ distribution: 'constant', value }) as const;
    const asked = ({ conversations = 2, turns = 2, tokens = 9 }) => {
      const { prompt_input } = pr32553;
      const input = { ...prompt_input, num_turns: constant(turns), num_tokens: constant(tokens) };
      return () => generate({}, { ...pr32553, num_conversations: conversations, prompt_input: input });
    };
    const tooMany = 'the workload has 10000000000 turns or more: wanted at most 4194304';
    expect(asked({ conversations: 1e10 })).toThrow(tooMany);
    expect(asked({ turns: 1e10 })).toThrow(tooMany);
    expect(asked({ tokens: 1e10 })).toThrow('the workload has more than 134217728 prompt tokens');
  });

  test('cut their tokens from a text, and are refused if it is too short', () => {
    const spec = { ...pr32553, num_conversations: 2 };
    const wanted = generate({}, spec).flatMap(({ turns }) => turns.map((t) => t.inputTokens));
    const length = wanted.reduce((a, b) => a + b) - 500;
    const tokenIds = Array.from({ length }, (_, i) => i);
    const made = generate({ tokens: { kind: 'text', tokenIds, name: 'book.txt' } }, spec);
    expect(made.flatMap(({ turns }) => turns.map((t) => t.inputTokens))).toEqual(wanted);
    expect(new Set(made.flatMap(({ turns }) => turns.flatMap(ids))).size).toBe(length);
    const short = { kind: 'text', tokenIds: tokenIds.slice(1), name: 'book.txt' } as const;
    expect(() => generate({ tokens: short }, spec)).toThrow(
      `book.txt has ${length - 1} tokens and the conversations take ${length}: give a longer text`,
    );
  });
});

describe('a generator file', () => {
  const change = (path: string, value: unknown): unknown => {
    const spec = structuredClone(pr32553) as GeneratorSpec & Record<string, unknown>;
    const keys = path.split('.');
    let place: Record<string, unknown> = spec;
    for (const key of keys.slice(0, -1)) place = place[key] as Record<string, unknown>;
    if (value === undefined) delete place[keys.at(-1)!];
    else place[keys.at(-1)!] = value;
    return spec;
  };

  test("is accepted if it is vLLM's own example", () => {
    const spec = {
      ...pr32553,
      text_files: ['pg1184.txt'],
      print_stats: false,
    };
    expect(parseGenerator(spec, 'gen.json')).toEqual(spec);
  });

  test.each([
    [
      'prompt_input.num_token',
      { distribution: 'constant', value: 1 },
      /prompt_input has an unknown key 'num_token': .*did you mean num_tokens/,
    ],
    ['num_conversation', 3, /unknown key 'num_conversation': .*did you mean num_conversations/],
    ['prompt_input.num_tokens', { distribution: 'constant', valeu: 1 }, /num_tokens/],
    [
      'prompt_input.num_tokens',
      { distribution: 'normal' },
      /num_tokens.*wanted .*constant, uniform, lognormal, zipf, poisson/,
    ],
    [
      'prompt_input.num_tokens',
      { distribution: 'uniform', min: 9, max: 3 },
      /num_tokens.max is 3: wanted a max that is not below min/,
    ],
    [
      'prompt_input.num_tokens',
      { distribution: 'uniform', min: 0, max: 3 },
      /num_tokens.min is 0: wanted a number above 0/,
    ],
    ['prompt_input.num_tokens', { distribution: 'zipf', alpha: 1 }, /alpha is 1: wanted a number above 1/],
    ['prompt_input.num_tokens', { distribution: 'lognormal', mean: 3 }, /wanted either average/],
    ['prompt_input.num_tokens', { distribution: 'lognormal', average: 9, sigma: 1 }, /wanted either average/],
    [
      'prompt_input.num_tokens',
      { distribution: 'lognormal', average: 9, median_ratio: 1.2 },
      /median_ratio is 1.2/,
    ],
    ['prompt_input.prefix_num_tokens', undefined, /prefix_num_tokens is missing/],
    ['num_conversations', 0, /num_conversations is 0: wanted a whole number, 1 or more/],
    ['filetype', 'other', /filetype is "other": wanted "generate_conversations"/],
    ['text_files', 'a.txt', /text_files is "a.txt": wanted a list of file names/],
  ])('is refused with %s = %j', (path, value, message) => {
    const read = () => parseGenerator(change(path, value), 'gen.json');
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(message);
    expect(read).toThrow(/^gen.json: /);
  });
});
