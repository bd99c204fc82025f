/** The workload as a file for vLLM's multi-turn benchmark, and the benchmark's command. */
import { scaleDivisor } from '../../config/bench-schema.ts';
import { type RunConfig, SHIPPED } from '../../config/run.ts';
import { sumOf } from '../../sum.ts';
import type { Distribution } from '../../workload/distributions.ts';
import { parseAnswered, parseConversations, parseMessages } from '../../workload/file.ts';
import { type GeneratorSpec, generateConversations, parseGenerator } from '../../workload/generate.ts';
import { pr32553 } from '../../workload/pr32553.ts';
import { shippedConversation } from '../../workload/shipped.ts';
import type { TextConversation } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';
import { HOST, routerPort, servedNames, type VllmCommand, vllmModel } from './engines.ts';

export interface VllmWorkload {
  /** The file name that the benchmark reads. */
  file: string;
  content: string;
  command: VllmCommand;
  notes: readonly string[];
}

/** The text from which vLLM's own benchmark files are made. */
const TEXT_FILE = 'pg1184.txt';
const TEXT_NOTE = `The workload is cut from ${TEXT_FILE}, as vLLM's is: wget https://www.gutenberg.org/ebooks/1184.txt.utf-8 -O ${TEXT_FILE}`;
/** The benchmark needs an answer in each place, but ignores it if limits are given. */
const PLACEHOLDER = '...';

/** Throws ConfigError for a file that cannot be read. */
export async function vllmWorkload(
  config: RunConfig,
  maxModelLen: number,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<VllmWorkload> {
  const limits = [config.limitMinTokens, config.limitMaxTokens] as const;
  const generated = await generatorOf(config, deps);
  if (generated) {
    const { spec, note } = generated;
    const { text_files = [TEXT_FILE], ...rest } = scaleSpec(spec, scaleDivisor(config.scale) ?? 1);
    return {
      file: 'workload.json',
      content: `${JSON.stringify({ ...rest, text_files, print_stats: true }, null, 2)}\n`,
      command: benchmark(config, 'workload.json', limits),
      notes: [
        ...(text_files.includes(TEXT_FILE) ? [TEXT_NOTE] : []),
        ...note,
        ...lengthNote(spec, config, maxModelLen),
      ],
    };
  }
  if (config.inputFile !== null) {
    // vLLM's own format: the file's answers set the output lengths.
    const content = await deps.readTextFile(config.inputFile);
    parseAnswered(parseMessages(content, config.inputFile), config.inputFile);
    const file = 'conversations.json';
    return { file, content, command: benchmark(config, file, limits), notes: [] };
  }
  const conversations = await textConversations(config.conversation, deps);
  const { list, dropped } = openAiList(conversations);
  return {
    file: 'conversations.json',
    content: `${JSON.stringify(list, null, 1)}\n`,
    // 0 follows the workload, and a text conversation has no lengths.
    command: benchmark(
      config,
      'conversations.json',
      limits.every((limit) => limit === 0) ? [1, config.maxTokens] : limits,
    ),
    notes: dropped
      ? ['The benchmark does not support system messages: they are joined to the first user message.']
      : [],
  };
}

/** A note if conversations exceed the context. Generated as by `kvferry bench`; vLLM draws other numbers of similar length. */
function lengthNote(spec: GeneratorSpec, { scale, seed }: RunConfig, maxModelLen: number): string[] {
  const tokens = { kind: 'drawn', lowest: 0, highest: 1 } as const;
  const drawn = generateConversations(spec, { scale: scaleDivisor(scale) ?? 1, seed, tokens });
  const lengths = drawn.map(({ turns }) =>
    sumOf(turns, ({ inputTokens, outputTokens }) => inputTokens + outputTokens!),
  );
  const longest = Math.max(...lengths);
  if (longest <= maxModelLen) return [];
  return [
    `The conversations grow to ${longest} tokens, and the engines refuse more than ${maxModelLen}: raise --max-model-len, or shrink the workload with --scale 1/N.`,
  ];
}

async function generatorOf(
  config: RunConfig,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<{ spec: GeneratorSpec; note: string[] } | null> {
  if (config.preset === 'pr32553') return { spec: pr32553, note: [] };
  if (config.inputFile !== null) {
    const json = parseMessages(await deps.readTextFile(config.inputFile), config.inputFile);
    const isSpec = typeof json === 'object' && json !== null && 'filetype' in json;
    return isSpec ? { spec: parseGenerator(json, config.inputFile), note: [] } : null;
  }
  if (config.conversation !== null) return null;
  const constant = (value: number): Distribution => ({ distribution: 'constant', value });
  const spec: GeneratorSpec = {
    filetype: 'generate_conversations',
    num_conversations: config.conversations,
    prompt_input: {
      // The benchmark counts messages as turns: a question and an answer each.
      num_turns: constant(2 * config.turns),
      common_prefix_num_tokens: constant(config.systemTokens),
      prefix_num_tokens: constant(0),
      num_tokens: constant(config.userTokens),
    },
    prompt_output: { num_tokens: constant(config.outputTokens) },
  };
  return { spec, note: ['The benchmark adds a sentence to each question: a few tokens more than here.'] };
}

async function textConversations(
  file: string | null,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<readonly TextConversation[]> {
  if (file === null || file === SHIPPED) return [shippedConversation];
  return parseConversations(await deps.readTextFile(file), file);
}

/** vLLM's input format: alternating user and assistant messages, with exactly two keys each. */
function openAiList(conversations: readonly TextConversation[]) {
  let dropped = false;
  const list = conversations.map(({ id, turns }) => ({
    id,
    messages: turns.flatMap((messages) => {
      dropped ||= messages.some(({ role }) => role !== 'user');
      const content = messages.map((message) => message.content).join('\n\n');
      return [
        { role: 'user', content },
        { role: 'assistant', content: PLACEHOLDER },
      ];
    }),
  }));
  return { list, dropped };
}

function benchmark(config: RunConfig, file: string, [min, max]: readonly [number, number]): VllmCommand {
  // --concurrency of run becomes clients.
  const clients = config.preset ? config.numClients : Math.max(config.numClients, config.concurrency);
  const [servedName] = servedNames(config);
  const active = config.maxActiveConversations ?? clients;
  return {
    what: "the benchmark (vLLM's benchmarks/multi_turn)",
    env: {},
    argv: [
      ...['python', 'benchmark_serving_multi_turn.py', '--model', vllmModel(config.model)],
      ...(servedName === undefined ? [] : ['--served-model-name', servedName]),
      ...['--url', `http://${HOST}:${routerPort(config)}`, '--input-file', file, '--send-conversation-id'],
      ...['--num-clients', String(clients), '--max-active-conversations', String(active)],
      ...['--seed', String(config.seed)],
      ...(min === 0 && max === 0
        ? []
        : ['--limit-min-tokens', String(min), '--limit-max-tokens', String(max)]),
      ...(config.maxNumRequests === null ? [] : ['--max-num-requests', String(config.maxNumRequests)]),
      ...(config.maxTurns === null ? [] : ['--max-turns', String(config.maxTurns)]),
      ...(config.requestRate > 0 ? ['--request-rate', String(config.requestRate)] : []),
      ...(config.conversationSampling === 'random' ? ['--conversation-sampling', 'random'] : []),
      ...(config.warmupStep ? ['--warmup-step'] : []),
      ...(config.warmupPercentages === '0%' ? [] : ['--warmup-percentages', config.warmupPercentages]),
      ...(config.earlyStop ? [] : ['--no-early-stop']),
    ],
  };
}

/** Divides every length; numbers of turns stay. For a zipf distribution only the maximum can be divided. */
function scaleSpec(spec: GeneratorSpec, by: number): GeneratorSpec {
  if (by === 1) return spec;
  const length = (n: number): number => (n > 0 ? Math.max(1, Math.round(n / by)) : 0);
  const scale = (d: Distribution): Distribution => {
    switch (d.distribution) {
      case 'constant':
        return { ...d, value: length(d.value) };
      case 'uniform':
        return { ...d, min: length(d.min), max: length(d.max) };
      case 'lognormal':
        return {
          ...d,
          ...(d.average === undefined ? {} : { average: length(d.average) }),
          ...(d.mean === undefined ? {} : { mean: Math.max(0.01, d.mean - Math.log(by)) }),
          ...(d.max === undefined ? {} : { max: length(d.max) }),
        };
      case 'poisson':
        return { ...d, alpha: d.alpha / by, ...(d.max === undefined ? {} : { max: length(d.max) }) };
      case 'zipf':
        return { ...d, ...(d.max === undefined ? {} : { max: length(d.max) }) };
    }
  };
  const { prompt_input: input, prompt_output: output } = spec;
  const common = input.common_prefix_num_tokens;
  return {
    ...spec,
    prompt_input: {
      num_turns: input.num_turns,
      ...(common === undefined ? {} : { common_prefix_num_tokens: scale(common) }),
      prefix_num_tokens: scale(input.prefix_num_tokens),
      num_tokens: scale(input.num_tokens),
    },
    prompt_output: { num_tokens: scale(output.num_tokens) },
  };
}
