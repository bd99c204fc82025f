/**
 * Compares a simulation with a benchmark's report of something real: figure by figure, with the sign of the error. Fits
 * nothing.
 */
import type { Mode } from '../../config/modes.ts';
import { ConfigError } from '../../errors.ts';
import type { BenchMode, Described } from '../../measure/schemas/bench-mode-schema.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';
import type { AgainstReport, SimulatedArm } from '../../measure/schemas/simulation-report.ts';
import { describeSamples } from '../../measure/statistics.ts';
import type { SimulatedArmPlan } from '../run.ts';

type Figure = AgainstReport['arms'][number]['figures'][number];

/** Where a benchmark's report has what an arm simulates. */
export interface Counterpart {
  /** Key of `experiments`. */
  experiment: string;
  /** Label of the mode in that experiment. */
  label: string;
}

/** A mode of the report, and the experiment that it ran in. */
export interface ReportedMode {
  mode: BenchMode;
  experiment: BenchReport['experiments'][string];
}

/**
 * For each arm, its mode in the report; null: the report has none. `counterparts`: one for each arm. Throws ConfigError
 * if the report has no mode for any arm.
 */
export function modesIn(
  report: BenchReport,
  source: string,
  { arms, counterparts }: { arms: readonly SimulatedArmPlan[]; counterparts: readonly Counterpart[] },
): (ReportedMode | null)[] {
  const all = Object.values(report.experiments);
  const found = arms.map(({ options }, i): ReportedMode | null => {
    const { experiment: key, label } = counterparts[i]!;
    // If the report has only one experiment (a server's, a trace's), that one is compared.
    const experiment = report.experiments[key] ?? (all.length === 1 ? all[0] : undefined);
    if (!experiment) return null;
    const some = Object.values(experiment.modes);
    const mode = some.find((each) => each.label === label) ?? onlyMode(some, options.mode, report);
    return mode && { mode, experiment };
  });
  if (found.some((mode) => mode !== null)) return found;
  const has = Object.entries(report.experiments).flatMap(([key, { modes }]) =>
    Object.values(modes).map(({ label }) => (all.length > 1 ? `${label} in ${key}` : label)),
  );
  throw new ConfigError(
    `${source} has ${has.join(', ') || 'no modes'}, but the simulation has ${arms.map(({ label }) => label).join(', ')}: simulate what the report has (--mode, --routing, --experiments)`,
  );
}

/** `plans` and `reported`, from modesIn: one for each arm. */
export const compareWithReport = (
  arms: readonly SimulatedArm[],
  plans: readonly SimulatedArmPlan[],
  reported: readonly (ReportedMode | null)[],
  source: string,
  clients: AgainstReport['clients'],
): AgainstReport => ({
  source,
  clients,
  arms: arms.flatMap((arm, i) => {
    const real = reported[i];
    if (!real) return [];
    const { mode, experiment } = real;
    return [
      {
        label: arm.label,
        real: mode.label,
        ...workOf(arm, mode),
        pools: poolsOf(plans[i]!, experiment),
        figures: figuresOf(arm, mode),
      },
    ];
  }),
});

const poolsOf = ({ options }: SimulatedArmPlan, { p_blocks, d_blocks }: ReportedMode['experiment']) => ({
  p_blocks: { real: p_blocks, simulated: options.prefill.numBlocks },
  d_blocks: { real: d_blocks, simulated: options.decode.numBlocks },
});

/** The report's only mode. A server's mode is unknown; with engines, another mode is another experiment. */
const onlyMode = (
  [only, ...others]: readonly BenchMode[],
  mode: Mode,
  { target }: BenchReport,
): BenchMode | null =>
  only && others.length === 0 && (target.kind === 'endpoint' || only.mode === mode) ? only : null;

/**
 * Rounds of a benchmark. It serves its workload once a round, a simulation once a seed; counts are compared for one of
 * each.
 */
const roundsOf = ({ samples }: BenchMode): number => new Set(samples.map(({ round }) => round)).size;

function workOf({ requests, prompt_tokens, seeds }: SimulatedArm, real: BenchMode) {
  const rounds = roundsOf(real);
  return {
    requests: { real: Math.round(real.requests / rounds), simulated: Math.round(requests / seeds) },
    prompt_tokens: {
      real: real.prompt_tokens === null ? null : Math.round(real.prompt_tokens / rounds),
      simulated: Math.round(prompt_tokens / seeds),
    },
  };
}

function figuresOf(arm: SimulatedArm, real: BenchMode): Figure[] {
  const pulled = real.pulled_tokens === null ? null : real.pulled_tokens / roundsOf(real);
  const tpots = real.samples.flatMap(({ latency_ms, ttft_ms, output_num_tokens }) =>
    output_num_tokens > 1 ? [(latency_ms - ttft_ms) / (output_num_tokens - 1)] : [],
  );
  const hitRate = (hit: number | null, pulled: number | null, prompt: number | null): number | null =>
    hit === null || pulled === null || !prompt ? null : (hit + pulled) / prompt;
  return [
    ...spread('TTFT', real.table.ttft_ms, arm.ttft_ms),
    ...spread('TPOT', describeSamples(tpots), arm.tpot_ms),
    ...spread('latency', real.table.latency_ms, arm.latency_ms),
    figure('requests a second', '/s', real.requests_per_second, arm.requests_per_second),
    figure(
      'hit rate',
      'share',
      hitRate(real.local_hit_tokens, real.pulled_tokens, real.prompt_tokens),
      hitRate(arm.local_hit_tokens, arm.pulled_tokens, arm.prompt_tokens),
    ),
    figure('pulled tokens', 'tokens', pulled, arm.pulled_tokens / arm.seeds),
  ].filter(({ real: known }) => known !== null);
}

const spread = (name: string, real: Described | null, simulated: Described | null): Figure[] =>
  (['mean', 'p50', 'p90', 'p99'] as const).map((which) =>
    figure(`${name} ${which}`, 'ms', real?.[which] ?? null, simulated?.[which] ?? null),
  );

const figure = (
  name: string,
  unit: Figure['unit'],
  real: number | null,
  simulated: number | null,
): Figure => ({
  name,
  unit,
  real,
  simulated,
  error: real && simulated !== null ? simulated / real - 1 : null,
});
