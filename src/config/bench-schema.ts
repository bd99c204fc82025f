/** The settings of a benchmark: what is served, by how many clients, how often, and against what. vLLM's names and meanings where it has them. */
import { z } from 'zod';
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
      ? [...compact.matchAll(/(\d+(?:\.\d+)?)([hms])/g)].reduce(
          (sum, [, n, unit]) => sum + Number(n) * { h: 3600, m: 60, s: 1 }[unit as 'h' | 'm' | 's'],
          0,
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
const wantedWarmup = "percentages below 100 with commas between, such as '0%,50%'";

/** Also of other commands that measure in rounds. */
export const measuring = {
  rounds: positive('rounds').nullable().default(null).meta({
    description:
      'How often everything is measured, side by side. Left out: 3 in a benchmark, or what --budget has time for; 5 in a sweep.',
    value: 'N',
  }),
};

export const bench = {
  inputFile: text('a file').nullable().default(null).meta({
    description:
      "The workload, as kvferry bench FILE: vLLM's generate_conversations JSON, or OpenAI-style conversations.",
    value: 'FILE',
  }),
  preset: oneOf(['pr32553']).nullable().default(null).meta({
    description:
      "pr32553: the published benchmark of vLLM's bidirectional transfer. Taken when no FILE is given: by bench and simulate with --scale 1/16, by bench with --budget 10m too.",
    value: 'NAME',
  }),
  scale: text(wantedScale)
    .refine((value) => scaleDivisor(value) !== null, { error: wantedScale })
    .default('1')
    .meta({
      description: 'Divides every length of a generated workload by N, and the threshold if none is given.',
      value: '1/N',
    }),
  budget: text(wantedBudget)
    .refine((value) => durationMs(value) !== null, { error: wantedBudget })
    .nullable()
    .default(null)
    .meta({
      description: 'Time for everything, start-up included: chooses conversations and rounds that fit.',
      value: 'TIME',
    }),
  experiments: listOf(EXPERIMENTS)
    .nullable()
    .default(null)
    .meta({
      description: `Of P's cache: ${EXPERIMENTS.join(', ')} (P's pool too small for all). Left out: all three.`,
      value: 'NAMES',
    }),
  numClients: positive('clients').default(1).meta({
    description:
      "Clients, each with one request under way. vLLM's num_clients and default; the preset's is 2.",
    value: 'N',
  }),
  maxActiveConversations: positive('conversations').nullable().default(null).meta({
    description:
      "Conversations that the clients take turns with, all clients together. vLLM's default: one a client.",
    value: 'N',
  }),
  maxNumRequests: positive('requests').nullable().default(null).meta({
    description: 'Stops after so many requests, shared out among the clients, as in vLLM.',
    value: 'N',
  }),
  maxTurns: positive('messages').nullable().default(null).meta({
    description: "Messages of a conversation, answers included, that are used at most. vLLM's max_turns.",
    value: 'N',
  }),
  requestRate: anyNumber('a number, 0 or more', { min: 0 }).default(0).meta({
    description: 'Requests a second of each client, with Poisson gaps after each answer; 0 is without gaps.',
    value: 'R',
  }),
  conversationSampling: oneOf(['round_robin', 'random']).default('round_robin').meta({
    description: "Which active conversation is next. vLLM's conversation_sampling and default.",
    value: 'HOW',
  }),
  warmupStep: flag().default(false).meta({
    description: 'Serves the first turn of every conversation beforehand and does not count it.',
    value: null,
  }),
  warmupPercentages: text(wantedWarmup)
    .refine((value) => percentages(value) !== null, { error: wantedWarmup })
    .default('0%')
    .meta({
      description: 'Also tables without the first so many percent of the samples of each round.',
      value: 'LIST',
    }),
  limitMinTokens: limit().default(0).meta({
    description:
      'Least tokens of an answer, with --limit-max-tokens. 0 follows the workload, -1 is no limit but --max-tokens.',
    value: 'TOKENS',
  }),
  limitMaxTokens: limit().default(0).meta({
    description: 'Most tokens of an answer, with --limit-min-tokens.',
    value: 'TOKENS',
  }),
  earlyStop: flag().default(false).meta({
    description:
      'Stops all clients when one runs out of conversations, as vLLM does. Off, so that every mode serves the same requests.',
    value: null,
  }),
};

/** In place of modes, where engines run. */
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
      description: `In place of modes: the ways that KV can take, at equal device memory, over each --link (a comma list; none is memory's speed): ${PATHS.map((name) => `${name} (${PATH_MEANINGS[name]})`).join(', ')}. Without names ${USUAL_PATHS.join(', ')}.`,
      value: 'NAMES',
      valueOptional: true,
    }),
};

/** What a request has to keep to count as good. */
export const slo = {
  sloTtft: time(wantedSlo, { above: 0 }).nullable().default(null).meta({
    description: 'Where policies are compared: a request counts as good only with such a TTFT at most.',
    value: 'TIME',
  }),
  sloTpot: time(wantedSlo, { above: 0 }).nullable().default(null).meta({
    description: 'The same of its time a token after the first.',
    value: 'TIME',
  }),
};

export const endpoint = {
  endpoint: text('the URL of a server').nullable().default(null).meta({
    description: 'Measures an OpenAI-compatible server at this URL in place of engines in this process.',
    value: 'URL',
  }),
  url: text('the URL of a server').nullable().default(null).meta({
    description: "vLLM's name for --endpoint.",
    value: 'URL',
  }),
  tokenizer: text('a preset or a directory').nullable().default(null).meta({
    description:
      'Counts and makes text for an endpoint: a preset or a directory with tokenizer.json. Left out: one word counts as one token.',
    value: 'PRESET|DIR',
  }),
  tokenIds: flag().default(false).meta({
    description:
      'Sends token ids to /v1/completions, not messages to /v1/chat/completions. Needs --tokenizer.',
    value: null,
  }),
  sendConversationId: flag().default(false).meta({
    description: "Sends conversation_id and the header X-Session-ID. vLLM's option and default.",
    value: null,
  }),
  requestTimeoutSec: anyNumber('a number of seconds above 0', { above: 0 }).default(120).meta({
    description: "Longest wait for an answer of an endpoint; at least 0.2 s a token. vLLM's default.",
    value: 'SECONDS',
  }),
};
