/** What a plan's fleets are asked, from the settings of a workload or a trace. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import type { Architecture } from '../../model/types.ts';
import type { SimulationCosts } from '../../simulate/costs/types.ts';
import { FALLBACK_OUTPUT } from '../../simulate/load.ts';
import { conversationLoad, type PlannedLoad, rateOf, traceLoad } from '../../simulate/plan/load.ts';
import { MOST_WARM_UPS } from '../../simulate/plan/trial.ts';
import type { BenchConversation } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';
import { plural } from '../format.ts';
import { loadWorkload } from '../multiturn/workload.ts';
import { asTokens, longestOf, type PlannedSimulation, planSimulation } from '../simulate/plan.ts';
import { planTrace } from '../simulate/trace.ts';
import type { Given } from '../trace/open.ts';

export interface PlanWorkload {
  planned: PlannedSimulation;
  load: PlannedLoad;
  /** Requests of the longest simulations. */
  sample: number;
  source: string;
  scale: string;
  /** Tokens of the longest prompt and its answer. */
  longest: number;
  /** What a reader must know of the sample. */
  notes: string[];
  /** Requests a second that the sample has of itself; null: none. */
  sampleRate: number | null;
  /** The options by which `kvferry simulate` is asked the same. */
  asked(sample: number, perSecond: number): string[];
  /** The command that asks real engines the same, as often as they answer, and of what. */
  onEngines: readonly ['bench' | 'replay', ...string[]];
}

/** `given`: as for openNamedTrace. Throws ConfigError. */
export async function planWorkload(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: CliDeps,
  given: Given,
): Promise<PlanWorkload> {
  return config.trace === null
    ? conversations(config, costs, architecture, deps)
    : trace(config, costs, architecture, deps, given);
}

/**
 * Of the longest simulations, where nobody says how many requests: 533 of Mooncake's, of 12,000 tokens each, 1600 of up to 4,000.
 * A search simulates some 27 times as many requests in all (docs/planning.md), by halving, which is half a minute to two.
 */
const PROMPT_TOKENS = 6_400_000;
const [FEWEST, MOST] = [400, 1600];
/** Of the TTFT that is allowed: how long requests come at least, for a queue to show. */
const SLO_TIMES = 20;

/** `promptTokens`: of a request, on average. */
function sampleOf({ sample, rate, sloTtft }: RunConfig, promptTokens: number): number {
  if (sample !== null) return sample;
  const long = Math.ceil((SLO_TIMES * (sloTtft ?? 0) * (rate ?? 0)) / 1000);
  return Math.max(long, Math.min(MOST, Math.max(FEWEST, Math.round(PROMPT_TOKENS / promptTokens))));
}

/** As many as the sample needs are drawn; a list has those that it has. */
async function conversations(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: CliDeps,
): Promise<PlanWorkload> {
  const vocabulary = await deps.backend.tokenizer(config.model);
  // Of a pipe there is nothing to read a second time.
  const texts = new Map<string, Promise<string>>();
  const files = {
    readTextFile(file: string): Promise<string> {
      const text = texts.get(file) ?? deps.readTextFile(file);
      texts.set(file, text);
      return text;
    },
  };
  const few = await loadWorkload(config, files, vocabulary, false);
  const turns = few.conversations.reduce((sum, each) => sum + each.turns.length, 0);
  const sample = sampleOf(config, promptTokens(few.conversations) / turns);
  const needed = ((1 + MOST_WARM_UPS) * sample * few.conversations.length) / turns;
  const arrivals = Math.max(few.conversations.length, Math.ceil(needed));
  const drawn = await loadWorkload({ ...config, arrivals }, files, vocabulary, false);
  const workload = { ...drawn, conversations: drawn.conversations.map((each) => asTokens(each, vocabulary)) };
  // How often they come is the plan's to say: here only that they come by themselves.
  const open = { ...config, arrivalRate: 1, arrivals };
  const planned = planSimulation(open, costs, workload, vocabulary, architecture, null);
  const load = conversationLoad(workload.conversations, config.thinkTime);
  const short = load.requests < sample;
  const turnsEach = load.requests / workload.conversations.length;
  const named = config.inputFile === null ? ['--preset', config.preset!] : [config.inputFile];
  return {
    planned,
    load,
    sample,
    longest: longestOf(workload.conversations),
    source: workload.source,
    scale: workload.scale,
    sampleRate: null,
    notes: short
      ? [`${workload.source} has ${plural(load.requests, 'request')}, fewer than a sample of ${sample}.`]
      : [],
    asked: (requests, perSecond) => [
      ...named,
      ...(config.scale === '1' ? [] : ['--scale', config.scale]),
      ...['--arrival-rate', rounded(perSecond / turnsEach)],
      ...['--arrivals', String(Math.ceil(requests / turnsEach))],
    ],
    onEngines: ['bench', ...named, '--scale', config.scale],
  };
}

/** Of all turns, each with the turns before it. */
const promptTokens = (conversations: readonly BenchConversation[]): number =>
  conversations.reduce((sum, { turns }) => {
    let history = 0;
    for (const { inputTokens, outputTokens } of turns) {
      history += inputTokens;
      sum += history;
      history += outputTokens ?? FALLBACK_OUTPUT;
    }
    return sum;
  }, 0);

const rounded = (value: number): string => String(Number(value.toPrecision(4)));

/** Rates that differ by less are told as one. */
const ALIKE = 0.05;

async function trace(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: CliDeps,
  given: Given,
): Promise<PlanWorkload> {
  const { planned, workload } = await planTrace(config, costs, architecture, deps, given);
  const { load } = planned.arms[0]!;
  if (load.kind !== 'trace') throw new TypeError('a trace says when what comes');
  const { turns, tokens } = load;
  const whole = rateOf(turns);
  if (whole === null)
    throw new ConfigError(
      `all requests of ${workload.source} come at once: a plan is for a rate; give a trace with times`,
    );
  const tokensOf = (some: typeof turns): number =>
    some.reduce((sum, { inputTokens }) => sum + inputTokens, 0) / some.length;
  const sample = sampleOf({ ...config, rate: config.rate ?? whole }, tokensOf(turns));
  const first = turns.slice(0, sample);
  const sampleRate = rateOf(first);
  const notes: string[] = [];
  if (first.length < turns.length) {
    const differ = [
      { what: 'requests a second', part: sampleRate ?? whole, all: whole },
      { what: 'prompt tokens', part: tokensOf(first), all: tokensOf(turns) },
    ].flatMap(({ what, part, all }) => {
      const by = part / all - 1;
      return Math.abs(by) < ALIKE ? [] : [`${by > 0 ? '+' : '−'}${Math.abs(100 * by).toFixed(0)}% ${what}`];
    });
    notes.push(
      `Simulated: the first ${plural(first.length, 'request')} of ${turns.length} in the trace${differ.length > 0 ? `, which differ from all of it (${differ.join(', ')})` : ''}.`,
    );
  }
  return {
    planned,
    load: traceLoad(turns, tokens),
    sample,
    longest: turns.reduce(
      (most, { inputTokens, outputTokens }) => Math.max(most, inputTokens + outputTokens),
      0,
    ),
    source: workload.source,
    scale: workload.scale,
    notes,
    sampleRate,
    asked: (requests, perSecond) => [
      ...['--trace', config.trace!, '--limit', String(requests)],
      ...['--speed-up', rounded((config.speedUp * perSecond) / whole)],
    ],
    onEngines: ['replay', config.trace!],
  };
}
