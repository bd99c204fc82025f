/** Loads a benchmark's conversations: from a preset, a generator file or a list. */
import path from 'node:path';
import { scaleDivisor } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import type { Workload } from '../../lab/multiturn/report.ts';
import { sumOf } from '../../sum.ts';
import { parseAnswered, parseMessages } from '../../workload/file.ts';
import {
  describeGenerator,
  type GeneratorSpec,
  generateInTurns,
  parseGenerator,
  type TokenSource,
} from '../../workload/generate.ts';
import { pr32553 } from '../../workload/pr32553.ts';
import { LOWEST_TOKEN_ID } from '../../workload/random-conversations.ts';
import type { BenchConversation, BenchTurn, Vocabulary } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';

export type WorkloadDeps = Pick<CliDeps, 'readTextFile' | 'nextTask'>;

/** `asText`: generated tokens are sent as their text. Throws ConfigError. */
export async function loadWorkload(
  config: RunConfig,
  deps: WorkloadDeps,
  vocabulary: Vocabulary,
  asText: boolean,
): Promise<Workload> {
  const { preset, inputFile } = config;
  if (inputFile === null) return generated(config, pr32553, `preset ${preset}`, '', deps, vocabulary, asText);
  const json = parseMessages(await deps.readTextFile(inputFile), inputFile);
  if (isGenerator(json)) {
    const spec = parseGenerator(json, inputFile);
    return generated(config, spec, inputFile, path.dirname(inputFile), deps, vocabulary, asText);
  }
  if (config.scale !== '1') {
    throw new ConfigError(
      `--scale is ${config.scale}, but ${inputFile} is a list of conversations, whose texts cannot be shortened: leave --scale out`,
    );
  }
  const conversations = parseAnswered(json, inputFile).map(({ id, turns }) => ({
    id,
    turns: turns.map(
      ({ messages, answer }): BenchTurn => ({
        content: { kind: 'text', messages },
        inputTokens: sumOf(messages, ({ content }) => vocabulary.encode(content).length),
        // As in vLLM: as many tokens as the file's answer, at least one.
        outputTokens: answer === null ? null : Math.max(1, vocabulary.encode(answer).length),
      }),
    ),
  }));
  return { source: inputFile, scale: '1', conversations, generation: {} };
}

const isGenerator = (json: unknown): boolean =>
  typeof json === 'object' &&
  json !== null &&
  !Array.isArray(json) &&
  !('messages' in json) &&
  !('role' in json);

async function generated(
  config: RunConfig,
  spec: GeneratorSpec,
  source: string,
  folder: string,
  deps: WorkloadDeps,
  vocabulary: Vocabulary,
  asText: boolean,
): Promise<Workload> {
  const files = (spec.text_files ?? []).map((file) => path.resolve(folder, file));
  let tokens: TokenSource = { kind: 'drawn', lowest: LOWEST_TOKEN_ID, highest: vocabulary.size - 1 };
  if (files.length > 0) {
    const read = (file: string) =>
      deps.readTextFile(file).catch((cause: Error) => {
        throw new ConfigError(
          `text_files in ${source}: ${cause.message}, or remove text_files to draw contents from --seed`,
          { cause },
        );
      });
    const texts = await Promise.all(files.map(read));
    const tokenIds = texts.flatMap((text) => vocabulary.encode(text));
    tokens = { kind: 'text', tokenIds, name: files.join(' and ') };
  }
  const scale = scaleDivisor(config.scale)!;
  // Additional conversations are generated rather than repeated, because repeats would hit caches.
  const count = config.arrivals ?? undefined;
  const options = { scale, seed: config.seed, tokens, count };
  const conversations = await generateInTurns(spec, options, deps.nextTask);
  const spelled = asText ? conversations.map((each) => asMessages(each, vocabulary)) : conversations;
  return { source, scale: config.scale, conversations: spelled, generation: describeGenerator(spec) };
}

function asMessages(conversation: BenchConversation, { decode }: Vocabulary): BenchConversation {
  const turns = conversation.turns.map((turn): BenchTurn => {
    if (turn.content.kind === 'text') return turn;
    const messages = [{ role: 'user', content: decode(turn.content.tokenIds) }];
    return { ...turn, content: { kind: 'text', messages } };
  });
  return { ...conversation, turns };
}
