/**
 * vLLM's `generate_conversations` files: their schema, and the conversations that a file and a seed give. Lengths
 * follow vLLM's rules. Contents are token ids, drawn or cut from a text, without the sentences that vLLM puts around
 * them.
 */
import { z } from 'zod';
import { didYouMean } from '../config/fields.ts';
import { shownJson } from '../config/shown.ts';
import { ConfigError } from '../errors.ts';
import { sum } from '../sum.ts';
import { type Distribution, describeDistribution, distributionSchema, sample } from './distributions.ts';
import { Random } from './random.ts';
import type { BenchConversation, BenchTurn } from './types.ts';

const objectOf = (wanted: string) => ({ error: wanted });

export const generatorSchema = z.strictObject(
  {
    filetype: z.literal('generate_conversations', { error: '"generate_conversations"' }),
    num_conversations: z
      .number({ error: 'a whole number, 1 or more' })
      .int({ error: 'a whole number, 1 or more' })
      .min(1, { error: 'a whole number, 1 or more' }),
    text_files: z.array(z.string().min(1), { error: 'a list of file names' }).optional(),
    print_stats: z.boolean({ error: 'true or false' }).optional(),
    prompt_input: z.strictObject(
      {
        num_turns: distributionSchema,
        common_prefix_num_tokens: distributionSchema.optional(),
        prefix_num_tokens: distributionSchema,
        num_tokens: distributionSchema,
      },
      objectOf('an object with num_turns, prefix_num_tokens and num_tokens'),
    ),
    prompt_output: z.strictObject({ num_tokens: distributionSchema }, objectOf('an object with num_tokens')),
  },
  objectOf('an object'),
);

export type GeneratorSpec = z.infer<typeof generatorSchema>;

/** Where token ids come from: drawn between two ids (both included), or cut from a text in order. */
export type TokenSource =
  | { kind: 'drawn'; lowest: number; highest: number }
  | { kind: 'text'; tokenIds: readonly number[]; name: string };

export interface GenerateOptions {
  /** Every length is divided by it; a length above 0 stays at least 1. */
  scale: number;
  seed: number;
  tokens: TokenSource;
  /** Conversations to generate in place of the spec's; a smaller number gives the first of a larger one. */
  count?: number | undefined;
}

/** Throws ConfigError that names `location` and the place in it. */
export function parseGenerator(json: unknown, location: string): GeneratorSpec {
  const result = generatorSchema.safeParse(json);
  if (result.success) return result.data;
  throw new ConfigError(firstIssue(result.error, json, location));
}

/** What is wrong, in one sentence: where, what was found, what was wanted. */
function firstIssue(error: z.ZodError, json: unknown, location: string): string {
  const issue = error.issues[0]!;
  const place = issue.path.map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    const key = issue.keys[0]!;
    const known = Object.keys(FIELDS[place] ?? DISTRIBUTION_FIELDS);
    return `${location}: ${place === '' ? 'there is' : `${place} has`} an unknown key '${key}': wanted ${known.join(', ')}${didYouMean(key, known)}`;
  }
  const found = issue.path.reduce<unknown>(
    (value, key) => (Object(value) === value ? (value as Record<PropertyKey, unknown>)[key] : undefined),
    json,
  );
  return `${location}: ${place === '' ? 'it' : place} is ${shownJson(found)}: wanted ${issue.message}`;
}

/** The keys that are allowed at each place; every other place has a distribution. */
const { shape } = generatorSchema;
const FIELDS: Readonly<Record<string, object>> = {
  '': shape,
  prompt_input: shape.prompt_input.shape,
  prompt_output: shape.prompt_output.shape,
};
const DISTRIBUTION_FIELDS = Object.assign({}, ...distributionSchema.options.map((option) => option.shape));

/** Conversations are generated in advance: at most about a GiB of tokens, and as much of turns. */
const MOST_TOKENS = 2 ** 27;
const MOST_TURNS = 2 ** 22;

/** Throws ConfigError. */
function checkTurns(turns: number): void {
  if (turns > MOST_TURNS)
    throw new ConfigError(
      `the workload has ${turns} turns or more: wanted at most ${MOST_TURNS}; lower num_conversations (or --arrivals) or num_turns`,
    );
}

const NO_PREFIX: Distribution = { distribution: 'constant', value: 0 };

/** Conversations generated between two turns of the event loop: some milliseconds' work. */
const AT_ONCE = 256;

/** Fewest conversations whose numbers of turns are drawn together, if `count` is given. */
const DRAWN_TOGETHER = 1024;

/**
 * The same spec, scale, seed and source give the same conversations. Throws ConfigError for a text that is too short,
 * and for more than fits in memory.
 */
export function generateConversations(spec: GeneratorSpec, options: GenerateOptions): BenchConversation[] {
  const generating = generate(spec, options);
  for (;;) {
    const step = generating.next();
    if (step.done) return step.value;
  }
}

/** As generateConversations. Awaits `nextTask` every now and then, because many conversations take many seconds. */
export async function generateInTurns(
  spec: GeneratorSpec,
  options: GenerateOptions,
  nextTask: () => Promise<void>,
): Promise<BenchConversation[]> {
  const generating = generate(spec, options);
  for (;;) {
    const step = generating.next();
    if (step.done) return step.value;
    await nextTask();
  }
}

/** Yields every now and then. */
function* generate(
  spec: GeneratorSpec,
  { scale, seed, tokens, count }: GenerateOptions,
): Generator<void, BenchConversation[]> {
  const random = new Random(seed);
  const contents = new Contents(tokens, seed);
  const scaled = (length: number): number => (length > 0 ? Math.max(1, Math.round(length / scale)) : 0);
  const { prompt_input, prompt_output, num_conversations } = spec;
  const wanted = count ?? num_conversations;
  checkTurns(wanted);
  // Drawn together in a number that does not depend on `count`.
  const together = count === undefined ? num_conversations : Math.max(num_conversations, DRAWN_TOGETHER);
  let commonIds: number[] | null = null;
  let numTurns = 0;
  const conversations: BenchConversation[] = [];
  while (conversations.length < wanted) {
    // As in vLLM: at least two messages, and every question has an answer.
    const drawn = sample(prompt_input.num_turns, together, random).map((n) => {
      const atLeast2 = Math.max(2, n);
      return atLeast2 + (atLeast2 % 2);
    });
    const messages = drawn.slice(0, wanted - conversations.length);
    numTurns += sum(messages) / 2;
    checkTurns(numTurns);
    const prefixes = sample(prompt_input.prefix_num_tokens, together, random);
    commonIds ??= commonPrefix(prompt_input.common_prefix_num_tokens ?? NO_PREFIX);
    for (const [i, numMessages] of messages.entries()) {
      conversations.push(conversationOf(numMessages, prefixes[i]!, commonIds));
      if (conversations.length % AT_ONCE === 0) yield;
    }
  }
  contents.check();
  return conversations;

  function commonPrefix(lengths: Distribution): number[] {
    const [length] = sample(lengths, 1, random);
    return contents.take(scaled(length!));
  }

  function conversationOf(numMessages: number, prefix: number, common: readonly number[]): BenchConversation {
    contents.countTokens(common.length);
    const questions = sample(prompt_input.num_tokens, numMessages, random);
    const answers = sample(prompt_output.num_tokens, numMessages, random);
    const turns = Array.from({ length: numMessages / 2 }, (_, turn): BenchTurn => {
      const before = turn === 0 ? [...common, ...contents.take(scaled(prefix))] : [];
      const tokenIds = [...before, ...contents.take(scaled(Math.max(1, questions[2 * turn]!)))];
      const outputTokens = scaled(Math.max(1, answers[2 * turn + 1]!));
      return { content: { kind: 'tokens', tokenIds }, inputTokens: tokenIds.length, outputTokens };
    });
    return { id: `CONV_ID_${conversations.length}`, turns };
  }
}

/** Hands out ids in order. */
class Contents {
  readonly #source: TokenSource;
  readonly #random: Random;
  #taken = 0;
  #numTokens = 0;

  constructor(source: TokenSource, seed: number) {
    this.#source = source;
    // A stream of its own, so that lengths do not depend on the contents.
    this.#random = new Random(seed ^ 0x5bd1e995);
  }

  /** Counts tokens that are kept in memory. Throws ConfigError beyond MOST_TOKENS. */
  countTokens(count: number): void {
    this.#numTokens += count;
    if (this.#numTokens > MOST_TOKENS)
      throw new ConfigError(
        `the workload has more than ${MOST_TOKENS} prompt tokens, and they must fit in memory: lower the number of conversations (num_conversations, --arrivals, or --sample of a plan) or the lengths (--scale 1/N divides them)`,
      );
  }

  take(count: number): number[] {
    const source = this.#source;
    if (source.kind === 'drawn') {
      this.countTokens(count);
      return Array.from({ length: count }, () => this.#random.int(source.lowest, source.highest));
    }
    this.#taken += count;
    return source.tokenIds.slice(this.#taken - count, this.#taken);
  }

  /** Throws ConfigError if more was taken than the text has. */
  check(): void {
    const source = this.#source;
    if (source.kind === 'drawn' || this.#taken <= source.tokenIds.length) return;
    throw new ConfigError(
      `${source.name} has ${source.tokenIds.length} tokens and the conversations take ${this.#taken}: give a longer text, lower the lengths, or omit text_files for seeded random tokens`,
    );
  }
}

/** vLLM's "conversations generation parameters". */
export function describeGenerator({ prompt_input, prompt_output }: GeneratorSpec): Record<string, string> {
  return {
    input_num_turns: describeDistribution(prompt_input.num_turns),
    input_common_prefix_num_tokens: describeDistribution(prompt_input.common_prefix_num_tokens ?? NO_PREFIX),
    input_prefix_num_tokens: describeDistribution(prompt_input.prefix_num_tokens),
    input_num_tokens: describeDistribution(prompt_input.num_tokens),
    output_num_tokens: describeDistribution(prompt_output.num_tokens),
  };
}
