/**
 * Compares a report with an earlier one of the same kind: which counts changed, and which times changed by more than noise.
 * Counts are exact, so any difference is a change. A time has changed if the 95% interval of its ratio excludes 1 and the
 * change exceeds the spread between rounds in either report. Times from another machine are shown but not judged.
 */
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { mean } from 'simple-statistics';
import { z } from 'zod';
import { changesResults } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import { seededGenerator } from '../../seeded.ts';
import { outcomeOf } from '../outcome.ts';
import type { TurnReport } from '../schemas/report.ts';
import type { AnyReport } from '../schemas/report-kinds.ts';
import { turnKey } from '../spans/turn-key.ts';
import { quantile } from '../statistics.ts';
import { type Figure, figuresOf, type Sample } from './baseline-figures.ts';

/** The comparison as assertions see it: in snake_case, with figures by name (`baseline.figures["bidirectional ttft_ms"]`). */
export const baselineSchema = z.strictObject({
  file: z.string(),
  created: z.string(),
  kvferry: z.string(),
  same_machine: z.boolean(),
  /** Differences in machine, settings, modes and requests, one sentence each. */
  differences: z.array(z.string()),
  /** null if no count was compared. */
  changed_counts: z.number().nullable(),
  better: z.number(),
  worse: z.number(),
  figures: z.array(
    z.strictObject({
      name: z.string(),
      unit: z.string(),
      before: z.number(),
      now: z.number(),
      /** now / before; null if before is 0. */
      ratio: z.number().nullable(),
      /** 95% interval of the ratio; null for counts and for too few samples. */
      low: z.number().nullable(),
      high: z.number().nullable(),
      movement: z.enum([
        'same', // an equal count
        'changed', // a different count
        'noise', // a time that changed by no more than noise
        'better',
        'worse',
        'not judged', // a time or answers from another machine, too few samples, or a count of different requests
      ]),
    }),
  ),
});

/** The comparison with the earlier report attached. */
export type Baseline = z.infer<typeof baselineSchema> & { report: AnyReport };
export type MovedFigure = Baseline['figures'][number];

/** Without rounds, times that differ by less than this share count as noise. */
export const SINGLE_RUN_NOISE = 0.2;
const RESAMPLES = 2000;
const LEAST_PAIRS = 3;

/** Throws ConfigError if the two reports cannot be compared. */
export function refuseOther(kind: string, model: string, earlier: AnyReport, file: string): void {
  if (earlier.kind !== kind) {
    throw new ConfigError(
      `${file} is a report of kvferry ${earlier.kind} and this is kvferry ${kind}: give a report of the same command as --baseline`,
    );
  }
  const earlierModel = modelOf(earlier);
  if (earlierModel !== model) {
    throw new ConfigError(
      `${file} was measured with the model ${earlierModel} and this is ${model}: give a report of the same model as --baseline`,
    );
  }
}

export const modelOf = (report: AnyReport): string =>
  report.kind === 'bench' ? report.target.model : report.model.name;

export function compareWithBaseline(report: AnyReport, earlier: AnyReport, file: string): Baseline {
  refuseOther(report.kind, modelOf(report), earlier, file);
  const machines = machineDifferences(report, earlier);
  const before = new Map(figuresOf(earlier).map((figure) => [figure.name, figure]));
  const sameMachine = machines.length === 0;
  const figures = figuresOf(report).flatMap((now) => {
    const then = before.get(now.name);
    return then ? [moved(now, then, sameMachine)] : [];
  });
  figures.push(...changedAnswers(report, earlier, sameMachine));
  const countOf = (movement: MovedFigure['movement']): number =>
    figures.filter((f) => f.movement === movement).length;
  return {
    file,
    created: earlier.created,
    kvferry: earlier.kvferry,
    same_machine: sameMachine,
    differences: [...machines, ...settingDifferences(report, earlier), ...loadDifferences(report, earlier)],
    changed_counts: countOf('same') + countOf('changed') === 0 ? null : countOf('changed'),
    better: countOf('better'),
    worse: countOf('worse'),
    figures,
    report: earlier,
  };
}

function machineDifferences(now: AnyReport, then: AnyReport): string[] {
  const facts = (report: AnyReport) => ({
    processor: `${report.machine.cores} x ${report.machine.cpu}`,
    adapter: `${report.adapter.name} (${report.adapter.backend})`,
    Node: report.machine.node.split('.')[0]!,
  });
  const before = facts(then);
  return Object.entries(facts(now)).flatMap(([what, value]) => {
    const old = before[what as keyof typeof before];
    return old === value ? [] : [`another ${what}: ${value}, before ${old}`];
  });
}

function settingDifferences(now: AnyReport, then: AnyReport): string[] {
  const show = (value: unknown): string => JSON.stringify(value) ?? 'not set';
  return [...new Set([...Object.keys(now.config), ...Object.keys(then.config)])]
    .filter((key) => changesResults(key) && show(now.config[key]) !== show(then.config[key]))
    .map((key) => `another ${key}: ${show(now.config[key])}, before ${show(then.config[key])}`);
}

/** A sentence for each mode that only one report has or that had different requests: a budget, a limit or a failure cut the load. */
function loadDifferences(now: AnyReport, then: AnyReport): string[] {
  const [after, before] = [servedBy(now), servedBy(then)];
  const different = [...after].flatMap(([name, these]) => {
    const others = before.get(name);
    if (!others) return `${name} is not in the earlier report, and not compared`;
    if (sameSet(these, others)) return [];
    const both = [...these].filter((request) => others.has(request)).length;
    return `different requests in ${name}: ${these.size}, before ${others.size}, ${both} of them in both; times cover the common ones, and counts are not compared`;
  });
  const gone = [...before.keys()].filter((name) => !after.has(name));
  return [...different, ...gone.map((name) => `${name} is only in the earlier report, and not compared`)];
}

/** Requests are identified by round too: one in a round that the other report lacks is a different request. */
function servedBy(report: AnyReport): Map<string, Set<string>> {
  if (report.kind === 'run')
    return new Map(report.runs.map(({ mode, turns }) => [mode, new Set(turns.map(turnKey))]));
  if (report.kind !== 'bench') return new Map();
  return new Map(
    Object.entries(report.experiments).flatMap(([key, { modes }]) =>
      Object.entries(modes).map(([mode, { samples }]): [string, Set<string>] => [
        `${key} ${mode}`,
        new Set(samples.map((sample) => `${sample.round} ${turnKey(sample)}`)),
      ]),
    ),
  );
}

const sameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  a.size === b.size && [...a].every((each) => b.has(each));

/** For each mode of a run, the turns whose answers have other tokens. Another machine's arithmetic may give other tokens. */
function changedAnswers(now: AnyReport, then: AnyReport, sameMachine: boolean): MovedFigure[] {
  if (now.kind !== 'run' || then.kind !== 'run') return [];
  const answersOf = (turns: readonly TurnReport[]) =>
    new Map(turns.map((turn) => [turnKey(turn), turn.output_token_ids.join()]));
  return now.runs.flatMap(({ mode, turns }): MovedFigure[] => {
    const earlier = then.runs.find((run) => run.mode === mode);
    if (!earlier) return [];
    const [ours, theirs] = [answersOf(turns), answersOf(earlier.turns)];
    const changed = [...ours].filter(([key, answer]) => theirs.has(key) && theirs.get(key) !== answer).length;
    const judged = sameMachine && sameSet(new Set(ours.keys()), new Set(theirs.keys()));
    const movement = !judged ? 'not judged' : changed === 0 ? 'same' : 'changed';
    const unmeasured = { before: 0, ratio: null, low: null, high: null };
    return [{ ...unmeasured, name: `${mode} changed_answers`, unit: 'turns', now: changed, movement }];
  });
}

function moved(now: Figure, then: Figure, sameMachine: boolean): MovedFigure {
  const [ours, theirs] = ofBoth(now.samples, then.samples);
  const [value, before] = [now.value ?? meanOf(ours), then.value ?? meanOf(theirs)];
  const ratio = before === 0 ? null : value / before;
  const figure = { name: now.name, unit: now.unit, before, now: value, ratio, low: null, high: null };
  if (now.of && then.of && !sameSet(new Set(now.of), new Set(then.of)))
    return { ...figure, movement: 'not judged' };
  if (now.better === null) return { ...figure, movement: value === before ? 'same' : 'changed' };
  const interval = now.interval && then.interval ? apart(now.interval, then.interval) : paired(ours, theirs);
  if (ratio === null || interval === null) return { ...figure, movement: 'not judged' };
  const [low, high] = interval;
  if (!sameMachine && now.needsSameMachine) return { ...figure, low, high, movement: 'not judged' };
  const noise = now.interval
    ? Math.max(...[now, then].map(({ byRound }) => (byRound ? spreadOf(byRound) : 0)))
    : Math.max(noiseOf(ours), noiseOf(theirs));
  const beyond = Math.abs(Math.log(ratio)) > Math.log1p(noise);
  if (!beyond || outcomeOf({ ratio, low, high }) === 'tie')
    return { ...figure, low, high, movement: 'noise' };
  return { ...figure, low, high, movement: ratio < 1 === (now.better === 'lower') ? 'better' : 'worse' };
}

/** The requests in both sets; all requests of both if they share none. */
function ofBoth(now: readonly Sample[], then: readonly Sample[]): [readonly Sample[], readonly Sample[]] {
  const earlier = new Set(then.map(({ key }) => key));
  const ours = now.filter(({ key }) => earlier.has(key));
  if (ours.length === 0) return [now, then];
  const shared = new Set(ours.map(({ key }) => key));
  return [ours, then.filter(({ key }) => shared.has(key))];
}

/** Grouped by request or by round. */
function meansBy(samples: readonly Sample[], name: 'key' | 'round'): Map<Sample['key' | 'round'], number> {
  const groups = new Map<Sample['key' | 'round'], number[]>();
  for (const sample of samples) {
    const group = groups.get(sample[name]);
    if (group) group.push(sample.ms);
    else groups.set(sample[name], [sample.ms]);
  }
  return new Map([...groups].map(([key, times]) => [key, mean(times)]));
}

/** A request's time is its mean over the rounds; figure and interval are over requests. */
const meanOf = (samples: readonly Sample[]): number => mean([...meansBy(samples, 'key').values()]);

const noiseOf = (samples: readonly Sample[]): number => spreadOf([...meansBy(samples, 'round').values()]);

function spreadOf(rounds: readonly number[]): number {
  if (rounds.length < 2) return SINGLE_RUN_NOISE;
  return (Math.max(...rounds) - Math.min(...rounds)) / mean([...rounds]);
}

/** The interval of now / before, from the intervals in both reports. */
function apart(now: readonly [number, number], then: readonly [number, number]): [number, number] | null {
  const [low, high] = [now[0] / then[1], now[1] / then[0]];
  return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : null;
}

/** The interval of now / before, from pairs of samples of the same request. */
function paired(now: readonly Sample[], then: readonly Sample[]): [number, number] | null {
  const others = meansBy(then, 'key');
  const pairs = [...meansBy(now, 'key')].flatMap(([key, value]) => {
    const other = others.get(key);
    return other === undefined ? [] : [{ value, other }];
  });
  return pairs.length < LEAST_PAIRS ? null : bootstrapRatio(pairs);
}

/** Bootstrap of the ratio of sums over pairs, percentiles 2.5 and 97.5; seeded, so that it is repeatable. */
function bootstrapRatio(pairs: readonly { value: number; other: number }[]): [number, number] | null {
  const random = seededGenerator(pairs.length);
  const ratios = Array.from({ length: RESAMPLES }, () => {
    let [sumNow, sumThen] = [0, 0];
    for (let i = 0; i < pairs.length; i++) {
      const pair = pairs[Math.floor(uniformFloat64(random) * pairs.length)]!;
      sumNow += pair.value;
      sumThen += pair.other;
    }
    return sumNow / sumThen;
  });
  const [low, high] = [quantile(ratios, 0.025), quantile(ratios, 0.975)];
  return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : null;
}
