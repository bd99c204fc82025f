/** `kvferry simulate --validate`: compares the simulation with real engines on this machine, and its errors with their spread. */
import type { RunConfig } from '../../config/run.ts';
import type { Cluster } from '../../fleet/types.ts';
import { makeHead } from '../../lab/run-report.ts';
import { formatCount, formatError, formatMs, formatPercent, plural } from '../../measure/format.ts';
import type { ValidationReport } from '../../measure/schemas/validation-report.ts';
import { left, right } from '../../report/document.ts';
import type { MeasuredCosts } from '../../simulate/costs/fit-measured.ts';
import {
  type ComparedFigure,
  ranking,
  type ValidatedArm,
  validate,
} from '../../simulate/results/validate.ts';
import type { SimulatedArmPlan, SimulationWorld } from '../../simulate/run.ts';
import type { CommandContext, Output } from '../deps.ts';
import type { OwnCheck } from '../output/assertions.ts';
import { createProgress } from '../output/progress.ts';
import { printer, renderTable, type TableStyle } from '../output/table.ts';

export interface Validation {
  arms: ValidatedArm[];
  ranking: { pairs: number; alike: number };
}

/** Whether every figure of each arm is within its limit. */
export const validationChecks = ({ arms }: Validation): OwnCheck[] =>
  arms.map((arm) => {
    const missed = [...missedBy(arm), ...(arm.failed > 0 ? [plural(arm.failed, 'failed request')] : [])];
    const message = missed.length === 0 ? 'every figure' : `missed: ${missed.join(', ')}`;
    return { name: `${arm.label} is predicted within the goal`, passed: missed.length === 0, message };
  });

const missedBy = ({ label, figures, decisions }: ValidatedArm): string[] => [
  ...figures.filter(({ met }) => !met).map(({ name }) => `${label}: ${name}`),
  ...(decisions.asCounted < decisions.counted * (decisions.amongRealCounted ?? 1)
    ? [`${label}: counts with the real runs' choices`]
    : []),
];

const runsOf = ({ rounds }: RunConfig): number => rounds ?? LEAST_RUNS;

/** Number of real runs over all arms, warm-up included. */
export const realRuns = (arms: readonly unknown[], config: RunConfig): number =>
  (runsOf(config) + 1) * arms.length;

export async function validateArms(
  cluster: Cluster,
  plans: readonly SimulatedArmPlan[],
  world: () => SimulationWorld,
  between: () => Promise<void>,
  config: RunConfig,
  { deps, signal }: CommandContext,
): Promise<Validation> {
  const runs = runsOf(config);
  const progress = createProgress(deps);
  let done = 0;
  progress.begin('real runs', realRuns(plans, config));
  const arms = await validate(cluster, plans, world, {
    ...{ runs, seed: config.seed, signal, between },
    clock: { now: deps.now, sleep: (ms) => deps.sleep(ms) },
    onRun: (label, run) => progress.update(done++, `${label}, ${run === 0 ? 'warming up' : `run ${run}`}`),
  }).finally(() => progress.end());
  return { arms, ranking: ranking(arms) };
}

/** `loadBefore`: load average of the machine before the engines started. */
export function validationReport(
  { arms, ranking: order }: Validation,
  { file, spread, worst }: MeasuredCosts,
  { adapter }: Cluster['info'],
  planned: { fleet: string; loadBefore: number },
  { model, seed }: RunConfig,
  deps: CommandContext['deps'],
): ValidationReport {
  return {
    ...makeHead('validate', deps, adapter),
    load_average: { begin: planned.loadBefore, end: deps.loadAverage() },
    fleet: planned.fleet,
    ...{ model, seed, costs: file, repeats: spread, fit_worst: worst },
    arms: arms.map(({ perRequest, decisions, ...arm }) => ({
      ...arm,
      per_request: perRequest,
      decisions: {
        alike: decisions.alike,
        among_real: decisions.amongReal,
        counted: decisions.counted,
        as_counted: decisions.asCounted,
        among_real_counted: decisions.amongRealCounted,
      },
    })),
    ranking: order,
  };
}

const LEAST_RUNS = 5;
/** If the real runs differ by more than this share, they cannot judge a simulation. */
const JUDGEABLE = 0.2;

export function printMeasured(
  { points, spread, worst, file, link }: MeasuredCosts,
  out: Output,
  color: boolean,
): void {
  const { say } = printer(out, color);
  const { step, decode_step, read, speeds } = file;
  const prompts = ({ fixed_ms, ms_per_prefill_token, ms_by_rows }: typeof step): string => {
    const [first, last] = [ms_by_rows?.at(0), ms_by_rows?.at(-1)];
    return first && last
      ? `${formatMs(first[1])} to ${formatMs(last[1])} ms with ${first[0]} to ${last[0]} prompt rows`
      : `${formatMs(fixed_ms)} ms + ${ms_per_prefill_token.toFixed(4)} per prompt token`;
  };
  const steps = (each: typeof step): string =>
    `${prompts(each)}, ${(each.ms_by_decodes ?? []).map((ms) => ms.toFixed(2)).join(', ')} ms with 1, 2, … decoding requests`;
  say(
    `Measured here: a step takes ${decode_step ? `on P ${steps(step)}, on D ${steps(decode_step)}` : steps(step)}; a READ${link === null ? '' : ` over ${link} (a modelled link)`} takes ${formatMs(read.fixed_ms)} ms + ${(read.ms_per_byte * 1e6).toFixed(2)} per MB${read.beside_ms > 0 ? `, and ${formatMs(read.beside_ms)} more while other engines compute` : ''}${read.from_steps_ms > 0 ? `; it slows concurrent steps by ${formatMs(read.from_steps_ms)} ms${read.pull_from_steps_ms === null ? '' : `, by ${formatMs(read.pull_from_steps_ms)} when P pulls`}` : ''}.`,
  );
  for (const sentence of speeds === null ? [] : sentencesOf(speeds)) say(sentence);
  say(
    `${points} points. Interquartile range of a point's repeats: ${formatPercent(spread.median)} in the median, ${formatPercent(spread.worst.spread)} at worst (${spread.worst.what}). Largest error of a step predicted from these points: ${formatPercent(Math.abs(worst.error))} (${worst.what}).`,
  );
}

/** Empty if no engine was measured alongside another. */
function sentencesOf(speeds: NonNullable<MeasuredCosts['file']['speeds']>): string[] {
  if (Array.isArray(speeds)) return [];
  const { far } = speeds;
  return (['prefill', 'decode'] as const).flatMap((role) => {
    const [own, other, at] = role === 'prefill' ? ['P', 'D', 'at prompts'] : ['D', 'P', 'at answers'];
    const factors = speeds[role].flatMap((row, i) =>
      row.flatMap((speed, others) => {
        if (i + others === 0) return [];
        const after = far ? ` (${far[role][i]![others]!.toFixed(2)} after ${far.to} tokens)` : '';
        return `${speed.toFixed(2)}${after} while ${i + 1} ${own}${others > 0 ? ` + ${others} ${other}` : ''} compute`;
      }),
    );
    return factors.length === 0
      ? []
      : `Speed of each ${own} ${at}, relative to one engine alone: ${factors.join(', ')}.`;
  });
}

export function printValidation(
  { arms, ranking: { pairs, alike } }: Validation,
  out: Output,
  color: boolean,
): void {
  const { print, say, c, style } = printer(out, color);
  for (const arm of arms) {
    print(['']);
    say(`${arm.label}: ${plural(arm.requests, 'request')}, ${plural(arm.runs, 'real run')}`, c.bold);
    print(table(arm.figures, style));
    const { mape, r } = arm.perRequest;
    say(
      `TTFT per request: mean error ${formatPercent(mape)}${r === null ? '' : `, correlation ${r.toFixed(2)}`}.`,
    );
    for (const sentence of ofDecisions(arm)) say(sentence);
    if (arm.failed > 0) say(`${plural(arm.failed, 'request')} failed.`, c.red);
  }
  print(['']);
  if (pairs > 0)
    say(`${alike} of ${pairs} pairs of arms that differ by more than 20% are in the same order.`);
  const noise = Math.max(
    ...arms.flatMap(({ figures }) =>
      figures.map(({ name, spread }) => (name.endsWith(' mean') ? spread : 0)),
    ),
  );
  if (noise > JUDGEABLE)
    say(
      `The means of the real runs differ by up to ±${formatPercent(noise)}, so they cannot judge the simulated times. Try again on an idle machine.`,
      c.yellow,
    );
  const missed = arms.flatMap(missedBy);
  if (missed.length === 0)
    say(
      'Every figure is within 10%, or twice the spread of the real runs.',
      noise > JUDGEABLE ? c.yellow : c.green,
    );
  else say(`Missed (10%, or twice the real spread): ${missed.join('; ')}.`, c.red);
}

/** Empty if turns had only one possible route and all counts agree. */
function ofDecisions({ decisions }: ValidatedArm): string[] {
  const { alike, amongReal, counted, asCounted, amongRealCounted } = decisions;
  const always = alike === 1 && (amongReal ?? 1) === 1;
  if (always && asCounted === counted) return [];
  const among = amongReal === null ? '' : `; two real runs agree on ${formatPercent(amongReal)}`;
  const spread =
    amongRealCounted === null || amongRealCounted === 1
      ? ''
      : `; two real runs with the same choices agree on ${formatPercent(amongRealCounted)}`;
  return [
    `Which engines serve a turn depends on timing: ${formatPercent(alike)} of the simulated turns go to the same engines as in a real run${among}. With the choices of each real run, ${asCounted === counted ? `all ${counted}` : `${asCounted} of ${counted}`} simulated turns have exactly the same hits, pulls and transfers${spread}.`,
  ];
}

function table(figures: readonly ComparedFigure[], style: TableStyle): string[] {
  const columns = [left(''), ...right('real', '±', 'simulated', 'error'), left('')];
  const rows = figures.map(({ name, unit, real, spread, simulated, error, met, exact }) => [
    unit === '' ? name : `${name}, ${unit}`,
    number(real, unit),
    formatPercent(spread),
    number(simulated, unit),
    exact && error === 0 ? 'exact' : formatError(error),
    met ? '' : 'missed',
  ]);
  return renderTable(columns, rows, style);
}

function number(value: number, unit: ComparedFigure['unit']): string {
  if (unit === 'ms') return formatMs(value);
  return unit === '' ? formatCount(Math.round(value)) : value.toFixed(2);
}
