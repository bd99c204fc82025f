/**
 * A report beside an earlier one of the same kind: which counts changed, and which times moved beyond noise. Counts are
 * exact, so any change is one. A time has moved when the 95% interval of its ratio leaves 1 and it moved by more than
 * the rounds of either report differ among themselves. On another machine times are shown, not judged.
 */
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { mean } from 'simple-statistics';
import { z } from 'zod';
import { changesResults } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import { seededGenerator } from '../seeded.ts';
import { type Figure, figuresOf } from './baseline-figures.ts';
import { outcomeOf } from './outcome.ts';
import type { AnyReport } from './report-kinds.ts';
import { quantile } from './statistics.ts';

/** As assertions see it: in snake_case, figures by name (`baseline.figures["bidirectional ttft_ms"]`). */
export const baselineSchema = z.strictObject({
  file: z.string(),
  created: z.string(),
  kvferry: z.string(),
  same_machine: z.boolean(),
  /** What differs in machine and settings, a sentence each. */
  differences: z.array(z.string()),
  changed_counts: z.number(),
  better: z.number(),
  worse: z.number(),
  figures: z.array(
    z.strictObject({
      name: z.string(),
      unit: z.string(),
      before: z.number(),
      now: z.number(),
      /** now / before; null when before is 0. */
      ratio: z.number().nullable(),
      /** 95% interval of the ratio; null for counts, and for too few samples. */
      low: z.number().nullable(),
      high: z.number().nullable(),
      movement: z.enum([
        'same', // a count that is equal
        'changed', // a count that is not
        'noise', // a time that did not move beyond noise
        'better',
        'worse',
        'not judged', // a time of another machine, or too few samples to tell
      ]),
    }),
  ),
});

/** With the earlier report. */
export type Baseline = z.infer<typeof baselineSchema> & { report: AnyReport };
export type MovedFigure = Baseline['figures'][number];

/** How much one pass over a workload says: without rounds, times that differ by less are taken for noise. */
export const SINGLE_RUN_NOISE = 0.2;
const RESAMPLES = 2000;
const LEAST_PAIRS = 3;

/** Throws ConfigError when the two cannot be compared. */
export function refuseOther(kind: string, model: string, earlier: AnyReport, file: string): void {
  if (earlier.kind !== kind) {
    throw new ConfigError(
      `${file} is a report of kvferry ${earlier.kind} and this is kvferry ${kind}: give a report of the same command as --baseline`,
    );
  }
  const theirs = modelOf(earlier);
  if (theirs !== model) {
    throw new ConfigError(
      `${file} was measured with the model ${theirs} and this is ${model}: give a report of the same model as --baseline`,
    );
  }
}

export const modelOf = (report: AnyReport): string =>
  report.kind === 'bench' ? report.target.model : report.model.name;

export function compareWithBaseline(report: AnyReport, earlier: AnyReport, file: string): Baseline {
  refuseOther(report.kind, modelOf(report), earlier, file);
  const machines = machineDifferences(report, earlier);
  const before = new Map(figuresOf(earlier).map((figure) => [figure.name, figure]));
  const figures = figuresOf(report).flatMap((now) => {
    const then = before.get(now.name);
    return then ? [moved(now, then, machines.length === 0)] : [];
  });
  const countOf = (movement: MovedFigure['movement']): number =>
    figures.filter((f) => f.movement === movement).length;
  return {
    file,
    created: earlier.created,
    kvferry: earlier.kvferry,
    same_machine: machines.length === 0,
    differences: [...machines, ...settingDifferences(report, earlier)],
    changed_counts: countOf('changed'),
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

function moved(now: Figure, then: Figure, sameMachine: boolean): MovedFigure {
  const ratio = then.value === 0 ? null : now.value / then.value;
  const figure = {
    name: now.name,
    unit: now.unit,
    before: then.value,
    now: now.value,
    ratio,
    low: null,
    high: null,
  };
  if (now.better === null) return { ...figure, movement: now.value === then.value ? 'same' : 'changed' };
  const interval = intervalOf(now, then);
  if (ratio === null || interval === null) return { ...figure, movement: 'not judged' };
  const [low, high] = interval;
  if (!sameMachine && now.needsSameMachine) return { ...figure, low, high, movement: 'not judged' };
  const beyond = Math.abs(Math.log(ratio)) > Math.log1p(Math.max(noiseOf(now), noiseOf(then)));
  if (!beyond || outcomeOf({ ratio, low, high }) === 'tie')
    return { ...figure, low, high, movement: 'noise' };
  return { ...figure, low, high, movement: ratio < 1 === (now.better === 'lower') ? 'better' : 'worse' };
}

const noiseOf = ({ roundMeans, interval }: Figure): number => {
  if (interval) return 0;
  if (roundMeans.length < 2) return SINGLE_RUN_NOISE;
  return (Math.max(...roundMeans) - Math.min(...roundMeans)) / mean([...roundMeans]);
};

/** Of now / before: from pairs of samples of the same request, or from the two reports' own intervals. */
function intervalOf(now: Figure, then: Figure): [number, number] | null {
  if (now.interval && then.interval) {
    const [low, high] = [now.interval[0] / then.interval[1], now.interval[1] / then.interval[0]];
    return Number.isFinite(low) && Number.isFinite(high) ? [low, high] : null;
  }
  const pairs = [...now.samples].flatMap(([key, value]) => {
    const other = then.samples.get(key);
    return other === undefined ? [] : [{ value, other }];
  });
  if (pairs.length < LEAST_PAIRS) return null;
  return bootstrapRatio(pairs);
}

/** Ratio of sums over pairs drawn with replacement, percentiles 2.5 and 97.5; seeded, so that it repeats. */
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
