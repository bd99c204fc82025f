/** Benchmark settings: workload, clients, repetitions, endpoint. Names and meanings are vLLM's where it has the setting. */
import { z } from 'zod';
import { sumOf } from '../sum.ts';
import { anyNumber, flag, listOf, oneOf, positive, text, time, wholeNumber } from './fields.ts';
import { PATH_MEANINGS, PATHS, USUAL_PATHS } from './paths.ts';

export const EXPERIMENTS = ['no-prefix-caching', 'prefix-caching', 'eviction'] as const;
export type ExperimentName = (typeof EXPERIMENTS)[number];

const limit = () => wholeNumber('a whole number of tokens; 0 follows the workload, -1 is no limit', {});

/** `1/16` as 16, `1` as 1; null for anything else. */
export function scaleDivisor(scale: string): number | null {
  const match = /^(?:1\/)?(\d+)$/.exec(scale.trim());
  const divisor = Number(match?.[1]);
  if (!match || !Number.isSafeInteger(divisor) || divisor < 1) return null;
  return scale.includes('/') || divisor === 1 ? divisor : null;
}

/** `10m`, `90s`, `1h30m`, `1.5m` or seconds, as milliseconds; null for anything else. */
export function durationMs(duration: string): number | null {
  const compact = duration.trim();
  const seconds = /^\d+(\.\d+)?$/.test(compact)
    ? Number(compact)
    : /^(\d+(\.\d+)?[hms])+$/.test(compact)
      ? sumOf(
          compact.matchAll(/(\d+(?:\.\d+)?)([hms])/g),
          ([, n, unit]) => Number(n) * { h: 3600, m: 60, s: 1 }[unit as 'h' | 'm' | 's'],
        )
      : 0;
  return seconds > 0 ? seconds * 1000 : null;
}

/** `0%,50%` as [0, 50]; null for anything else. */
export function percentages(list: string): number[] | null {
  const numbers = list.split(',').map((part) => /^\s*(\d+(?:\.\d+)?)%?\s*$/.exec(part)?.[1]);
  if (numbers.some((n) => n === undefined || Number(n) >= 100)) return null;
  return numbers.map(Number);
}

/** `5%` as 0.05. */
export const shareOf = (text: string): number => Number.parseFloat(text) / 100;

const wantedScale = "1, or 1/N with a whole number N, such as '1/16'";
const wantedSlo = 'a time above 0, such as 200ms or 1s';
const wantedBudget = "a time above 0, such as '10m', '90s' or '1h30m'";
const wantedWarmup = "percentages below 100, separated by commas, such as '0%,50%'";

/** Also used by other commands that measure in rounds. */
export const measuring = {
  rounds: positive('rounds').nullable().default(null).meta({
    description: 'How often everything is measured, in alternation.',
    value: 'N',
  }),
};

export const bench = {
  inputFile: text('a file').nullable().default(null).meta({
    description:
      "The workload; the command's FILE argument means the same. vLLM's generate_conversations JSON, or OpenAI-style conversations.",
    value: 'FILE',
  }),
  preset: oneOf(['pr32553']).nullable().default(null).meta({
    description:
      "pr32553: the published benchmark of vLLM's bidirectional transfer. Default: this one if no FILE is given; bench and simulate then use --scale 1/16, and bench also --budget 10m.",
    value: 'NAME',
  }),
  scale: text(wantedScale)
    .refine((value) => scaleDivisor(value) !== null, { error: wantedScale })
    .default('1')
    .meta({
      description:
        'Divide every length of a generated workload by N, and also the threshold if none is given.',
      value: '1/N',
    }),
  budget: text(wantedBudget)
    .refine((value) => durationMs(value) !== null, { error: wantedBudget })
    .nullable()
    .default(null)
    .meta({
      description:
        'Time for everything, start-up included. Conversations and rounds are chosen to fit; with --endpoint it only ends the run.',
      value: 'TIME',
    }),
  experiments: listOf(EXPERIMENTS)
    .nullable()
    .default(null)
    .meta({
      description: `Experiments with P's cache: ${EXPERIMENTS.join(', ')} (P's pool is too small for everything). Default: all three.`,
      value: 'NAMES',
    }),
  numClients: positive('clients').default(1).meta({
    description:
      "Clients, each with one request in flight. vLLM's num_clients and default; the preset has 2.",
    value: 'N',
  }),
  maxActiveConversations: positive('conversations').nullable().default(null).meta({
    description: "Active conversations, across all clients. vLLM's default: one per client.",
    value: 'N',
  }),
  maxNumRequests: positive('requests').nullable().default(null).meta({
    description: 'Stop after N requests, divided among the clients, as in vLLM.',
    value: 'N',
  }),
  maxTurns: positive('messages').nullable().default(null).meta({
    description: "Most messages used per conversation, answers included. vLLM's max_turns.",
    value: 'N',
  }),
  requestRate: anyNumber('a number, 0 or more', { min: 0 }).default(0).meta({
    description:
      'Requests per second of each client, with Poisson gaps after each answer; 0 is without gaps.',
    value: 'R',
  }),
  conversationSampling: oneOf(['round_robin', 'random']).default('round_robin').meta({
    description: "Which active conversation comes next. vLLM's conversation_sampling and default.",
    value: 'HOW',
  }),
  warmupStep: flag().default(false).meta({
    description: 'Serve the first turn of every conversation beforehand, without counting it.',
    value: null,
  }),
  warmupPercentages: text(wantedWarmup)
    .refine((value) => percentages(value) !== null, { error: wantedWarmup })
    .default('0%')
    .meta({
      description: "Also print tables that skip this percentage of each round's first samples.",
      value: 'LIST',
    }),
  limitMinTokens: limit().default(0).meta({
    description:
      'Shortest answer, with --limit-max-tokens. 0 follows the workload; -1 is no limit other than --max-tokens.',
    value: 'TOKENS',
  }),
  limitMaxTokens: limit().default(0).meta({
    description: 'Longest answer, with --limit-min-tokens.',
    value: 'TOKENS',
  }),
  earlyStop: flag().default(false).meta({
    description:
      'Stop all clients when one runs out of conversations, as vLLM does. Off by default, so that every mode serves the same requests.',
    value: null,
  }),
};

/** KV paths to compare instead of modes; with engines only, not with an endpoint. */
export const ways = {
  paths: z
    .preprocess(
      (value) =>
        value === true || value === 'true'
          ? [...USUAL_PATHS]
          : value === false || value === 'false'
            ? null
            : value,
      listOf(PATHS).nullable(),
    )
    .default(null)
    .meta({
      description: `Compare KV paths instead of modes, at equal device memory and over each --link (comma-separated; none is memory speed): ${PATHS.map((name) => `${name} (${PATH_MEANINGS[name]})`).join(', ')}. Without names: ${USUAL_PATHS.join(', ')}.`,
      value: 'NAMES',
      valueOptional: true,
    }),
};

/** The latency limits that a good request meets. */
export const slo = {
  sloTtft: time(wantedSlo, { above: 0 }).nullable().default(null).meta({
    description:
      'Longest TTFT of a request that counts as good. bench and replay accept it only with several policies in --routing.',
    value: 'TIME',
  }),
  sloTpot: time(wantedSlo, { above: 0 }).nullable().default(null).meta({
    description: 'The same for TPOT, the time per output token after the first.',
    value: 'TIME',
  }),
};

export const endpoint = {
  endpoint: text('the URL of a server').nullable().default(null).meta({
    description:
      'Measure the OpenAI-compatible server at this URL instead of engines in this process. OPENAI_API_KEY is sent as its key.',
    value: 'URL',
  }),
  url: text('the URL of a server').nullable().default(null).meta({
    description: "vLLM's name for --endpoint.",
    value: 'URL',
  }),
  tokenizer: text('a preset or a directory').nullable().default(null).meta({
    description:
      'Counts tokens and generates text for an endpoint: a preset or a directory with tokenizer.json. Default: one word counts as one token.',
    value: 'PRESET|DIR',
  }),
  tokenIds: flag().default(false).meta({
    description:
      'Send token ids to /v1/completions instead of messages to /v1/chat/completions. Needs --tokenizer.',
    value: null,
  }),
  sendConversationId: flag().default(false).meta({
    description: "Send conversation_id and the header X-Session-ID. vLLM's option and default.",
    value: null,
  }),
  requestTimeoutSec: anyNumber('a number of seconds above 0', { above: 0 }).default(120).meta({
    description: "Longest wait for an answer from an endpoint; at least 0.2 s per token. vLLM's default.",
    value: 'SECONDS',
  }),
};
