/** A plan's workload, from the settings of a workload or a trace. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { formatCount, plural } from '../../measure/format.ts';
import type { PlanRow } from '../../measure/schemas/plan-report.ts';
import type { Architecture } from '../../model/types.ts';
import type { SimulationCosts } from '../../simulate/costs/types.ts';
import { FALLBACK_OUTPUT } from '../../simulate/load/load.ts';
import { conversationLoad, type PlannedLoad, rateOf, traceLoad } from '../../simulate/plan/load.ts';
import { arrivalRateOf, countsFrom } from '../../simulate/plan/outcome.ts';
import { CHECK_TIMES } from '../../simulate/plan/space.ts';
import { MOST_WARM_UPS } from '../../simulate/plan/trial.ts';
import { sumOf } from '../../sum.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import type { BenchConversation } from '../../workload/types.ts';
import type { CliDeps } from '../deps.ts';
import { loadWorkload, type WorkloadDeps } from '../multiturn/workload.ts';
import { asTokens, longestOf, type PlannedSimulation, planSimulation } from '../simulate/plan.ts';
import { planTrace } from '../simulate/trace.ts';
import type { Given } from '../trace/open.ts';

export interface PlanWorkload {
  planned: PlannedSimulation;
  load: PlannedLoad;
  /** Requests by which the last candidates are compared. */
  sample: number;
  source: string;
  scale: string;
  /** Tokens of the longest prompt plus its answer. */
  longest: number;
  /** Unscaled tokens of a trace's hash id; null: not a trace. */
  traceBlockSize: number | null;
  /** Notes for the reader about the sample that a row was simulated with; null: no row is shown. */
  notes(row: PlanRow | null): string[];
  /** The sample's own requests per second; null: it has no times. */
  sampleRate: number | null;
  /** Options that make `kvferry simulate` serve the row's load. */
  options(row: RowLoad): string[];
  /**
   * The command that sends the same workload to real engines (closed loop for bench), with its arguments. null: its
   * conversations are longer than the model's context.
   */
  onEngines(row: RowLoad): OnEngines | null;
}

export type RowLoad = Pick<PlanRow, 'sample' | 'with_warm_up' | 'requests_per_second'>;
export type OnEngines = readonly ['bench' | 'replay', ...string[]];

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
 * Default size of the simulations by which the last candidates are compared, in prompt tokens: 533 requests of Mooncake's
 * 12,000 tokens, or 1600 of up to 4,000. With the halving rounds and the check of the answer, a search simulates about 40
 * times as many requests in total (docs/planning.md), which takes half a minute to two minutes.
 */
const PROMPT_TOKENS = 6_400_000;
const [FEWEST, MOST] = [400, 1600];
/** Requests arrive for at least this many times the SLO's TTFT, so that a growing queue shows. */
const SLO_TIMES = 20;

/** `promptTokens`: mean prompt length. */
function sampleOf({ sample, rate, sloTtft }: RunConfig, promptTokens: number): number {
  if (sample !== null) return sample;
  const long = Math.ceil((SLO_TIMES * (sloTtft ?? 0) * (rate ?? 0)) / 1000);
  return Math.max(long, Math.min(MOST, Math.max(FEWEST, Math.round(PROMPT_TOKENS / promptTokens))));
}

/** Generates as many conversations as the sample needs; a file has a fixed number. */
async function conversations(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: CliDeps,
): Promise<PlanWorkload> {
  const vocabulary = await deps.backend.tokenizer(config.model);
  // A pipe can be read only once, so texts are kept.
  const texts = new Map<string, Promise<string>>();
  const files: WorkloadDeps = {
    nextTask: deps.nextTask,
    readTextFile(file: string): Promise<string> {
      const text = texts.get(file) ?? deps.readTextFile(file);
      texts.set(file, text);
      return text;
    },
  };
  const few = await loadWorkload(config, files, vocabulary, false);
  const turns = sumOf(few.conversations, (each) => each.turns.length);
  const sample = sampleOf(config, promptTokens(few.conversations) / turns);
  const needed = ((CHECK_TIMES + MOST_WARM_UPS) * sample * few.conversations.length) / turns;
  const arrivals = Math.max(few.conversations.length, Math.ceil(needed));
  const drawn = await loadWorkload({ ...config, arrivals }, files, vocabulary, false);
  const workload = { ...drawn, conversations: drawn.conversations.map((each) => asTokens(each, vocabulary)) };
  // The plan sets the rate; this only makes the load open-loop.
  const open = { ...config, arrivalRate: 1, arrivals };
  const planned = planSimulation(open, costs, workload, vocabulary, architecture, null);
  const load = conversationLoad(workload.conversations, config.thinkTime);
  const short = load.requests < sample;
  const longest = longestOf(workload.conversations);
  const fits = longest <= architecture.maxModelLen;
  const named = config.inputFile === null ? ['--preset', config.preset!] : [config.inputFile];
  return {
    planned,
    load,
    sample,
    longest,
    traceBlockSize: null,
    source: workload.source,
    scale: workload.scale,
    sampleRate: null,
    notes: () => [
      ...(short
        ? [`${workload.source} has ${plural(load.requests, 'request')}, fewer than a sample of ${sample}.`]
        : []),
      ...(fits
        ? []
        : [
            `Engines here cannot serve this workload, so no kvferry bench command is given: the longest conversation has ${formatCount(longest)} tokens, and ${config.model} goes up to ${formatCount(architecture.maxModelLen)}. To compare with engines here, plan with another --model or --scale 1/N.`,
          ]),
    ],
    options({ sample, with_warm_up: withWarmUp, requests_per_second: rate }) {
      const { seed, seeds } = config;
      const draws = { seed, seeds, countsFrom: countsFrom({ sample, withWarmUp }) };
      const { count, perSecond } = load.arrivalsOf(withWarmUp, rate, draws);
      return [
        ...named,
        ...(config.scale === '1' ? [] : ['--scale', config.scale]),
        ...['--arrival-rate', rounded(perSecond), '--arrivals', String(count)],
      ];
    },
    onEngines: () => (fits ? ['bench', ...named, '--scale', config.scale] : null),
  };
}

/** Prompt tokens of all turns, histories included. */
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

const rounded = (value: number): string => String(Number(value.toPrecision(6)));

/** Smaller relative differences are not reported. */
const ALIKE = 0.05;

async function trace(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: CliDeps,
  given: Given,
): Promise<PlanWorkload> {
  const { planned, workload, traceBlockSize } = await planTrace(config, costs, architecture, deps, given);
  const { load } = planned.arms[0]!;
  if (load.kind !== 'trace') throw new TypeError('the load of a trace is not a trace');
  const { turns, tokens } = load;
  const whole = rateOf(turns);
  if (whole === null)
    throw new ConfigError(
      `all requests of ${workload.source} arrive at the same time: a plan needs a rate; give a trace with arrival times`,
    );
  const sample = sampleOf({ ...config, rate: config.rate ?? whole }, meanPrompt(turns));
  const options = ({ with_warm_up: requests, requests_per_second: perSecond }: RowLoad) => [
    ...['--limit', String(requests)],
    ...['--speed-up', rounded((config.speedUp * perSecond) / whole)],
  ];
  return {
    planned,
    load: traceLoad(turns, tokens),
    sample,
    traceBlockSize,
    longest: turns.reduce(
      (most, { inputTokens, outputTokens }) => Math.max(most, inputTokens + outputTokens),
      0,
    ),
    source: workload.source,
    scale: workload.scale,
    notes: (row) => (row ? notesOfPart(row, turns) : []),
    sampleRate: rateOf(turns.slice(0, sample)),
    options: (row) => ['--trace', config.trace!, ...options(row)],
    onEngines: (row) => ['replay', config.trace!, ...options(row)],
  };
}

/** A note if only the first requests of a trace were simulated: how those that counted differ from the whole. */
function notesOfPart(row: PlanRow, turns: readonly TraceTurn[]): string[] {
  const { with_warm_up: simulated, counted, counted_ms: countedMs, requests_per_second: perSecond } = row;
  if (simulated >= turns.length) return [];
  const last = turns.slice(Math.max(0, simulated - counted), simulated);
  const differ = [
    { what: 'requests per second', by: arrivalRateOf({ counted, countedMs }) / perSecond - 1 },
    { what: 'prompt tokens', by: meanPrompt(last) / meanPrompt(turns) - 1 },
  ].flatMap(({ what, by }) =>
    Math.abs(by) < ALIKE ? [] : [`${by > 0 ? '+' : '−'}${Math.abs(100 * by).toFixed(0)}% ${what}`],
  );
  return [
    `Simulated: the first ${plural(simulated, 'request')} of ${turns.length} in the trace. The last ${counted} of them count${differ.length > 0 ? `, and differ from the whole trace (${differ.join(', ')})` : ''}.`,
  ];
}

const meanPrompt = (turns: readonly TraceTurn[]): number =>
  sumOf(turns, ({ inputTokens }) => inputTokens) / turns.length;
