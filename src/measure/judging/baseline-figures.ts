/** The figures of a report that are compared with an earlier one, for every kind of report. */
import { mean } from 'simple-statistics';
import type { BenchMode } from '../schemas/bench-mode-schema.ts';
import type { BenchReport } from '../schemas/bench-report.ts';
import type { Report, TurnReport } from '../schemas/report.ts';
import type { AnyReport } from '../schemas/report-kinds.ts';
import { type SweepReport, seriesName } from '../schemas/sweep-report.ts';
import { turnKey } from '../spans/turn-key.ts';
import { median } from '../statistics.ts';
import { timedTurns } from '../summaries/summary.ts';

export interface Figure {
  /** The same in every report of the kind, such as 'bidirectional ttft_ms'. */
  name: string;
  unit: 'tokens' | 'bytes' | 'pipelines' | 'descriptors' | 'ms' | 'x';
  /** null for a time, which has `samples`. */
  value: number | null;
  /** null for a count, which is exact. */
  better: 'lower' | 'higher' | null;
  /** false for a ratio of two times of one machine, which can be compared across machines. */
  needsSameMachine: boolean;
  /** Values of single requests; empty if the figure has none. */
  samples: readonly Sample[];
  /** The report's 95% interval. */
  interval: readonly [number, number] | null;
  /** A value per round; null if the interval is already over rounds. */
  byRound: readonly number[] | null;
  /** The requests that the figure sums or compares; figures of different requests are not comparable. null: always the same. */
  of: readonly string[] | null;
}

export interface Sample {
  /** Names the request. */
  key: string;
  round: number;
  ms: number;
}

const bare = { needsSameMachine: false, samples: [], interval: null, byRound: null, of: null } as const;

const count = (name: string, unit: Figure['unit'], value: number, of: Figure['of']): Figure => ({
  ...bare,
  name,
  unit,
  value,
  better: null,
  of,
});

/** No figure without samples. */
const time = (name: string, samples: readonly Sample[]): Figure[] =>
  samples.length === 0
    ? []
    : [{ ...bare, name, unit: 'ms', value: null, better: 'lower', needsSameMachine: true, samples }];

const TOKENS = [
  'prompt_tokens',
  'local_hit_tokens',
  'pulled_tokens',
  'computed_tokens',
  'output_tokens',
] as const;
const BYTES = ['bytes_p_to_d', 'bytes_d_to_p'] as const;

/** No figure for null, which a server does not report. */
function counts(
  mode: string,
  sums: Readonly<Record<(typeof TOKENS)[number] | (typeof BYTES)[number], number | null>>,
  of: Figure['of'],
): Figure[] {
  const known = (name: keyof typeof sums, unit: Figure['unit']): Figure[] =>
    sums[name] === null ? [] : [count(`${mode} ${name}`, unit, sums[name], of)];
  return [
    ...TOKENS.flatMap((name) => known(name, 'tokens')),
    ...BYTES.flatMap((name) => known(name, 'bytes')),
  ];
}

export function figuresOf(report: AnyReport): Figure[] {
  if (report.kind === 'bench') return benchFigures(report);
  return report.kind === 'sweep' ? sweepFigures(report) : runFigures(report);
}

function runFigures({ runs, comparison }: Report): Figure[] {
  const timedOf = timedTurns(runs);
  const figures = runs.flatMap(({ mode, turns, summary }, i): Figure[] => {
    const all = timedOf[i]!;
    const timed = (
      what: 'ttft_ms' | 'tpot_ms' | 'latency_ms',
      name: string = what,
      list: readonly TurnReport[] = all,
    ): Figure[] => {
      const known = list.flatMap((turn): Sample[] => {
        const ms = turn[what];
        return ms === null ? [] : [{ key: turnKey(turn), round: 1, ms }];
      });
      return time(`${mode} ${name}`, known);
    };
    const of = turns.map(turnKey);
    const later = all.filter(({ turn }) => turn > 1);
    return [
      ...counts(mode, summary, of),
      count(`${mode} first_use_compilations`, 'pipelines', summary.first_use_compilations, of),
      ...timed('ttft_ms'),
      ...timed('ttft_ms', 'ttft_later_turns_ms', later),
      ...timed('tpot_ms'),
      ...timed('latency_ms'),
    ];
  });
  const saved = comparison?.computed_tokens_saved;
  return saved === null || saved === undefined
    ? figures
    : [
        ...figures,
        count(
          'computed_tokens_saved',
          'tokens',
          saved,
          runs.flatMap(({ mode, turns }) => turns.map((turn) => `${mode} ${turnKey(turn)}`)),
        ),
      ];
}

function benchFigures({ experiments }: BenchReport): Figure[] {
  return Object.entries(experiments).flatMap(([key, { modes, comparison }]) => {
    const compared = [...new Set(Object.values(modes).flatMap(({ samples }) => samples.map(turnKey)))];
    return [
      ...Object.entries(modes).flatMap(([mode, measured]): Figure[] => {
        const name = `${key} ${mode}`;
        return [
          ...counts(
            name,
            measured,
            measured.samples.map((sample) => `${sample.round} ${turnKey(sample)}`),
          ),
          ...(['ttft_ms', 'tpot_ms', 'latency_ms'] as const).flatMap((what) =>
            time(
              `${name} ${what}`,
              measured.samples.map((sample) => ({
                key: turnKey(sample),
                round: sample.round,
                ms: sample[what],
              })),
            ),
          ),
        ];
      }),
      ...(comparison
        ? (['mean', 'p50'] as const).flatMap((statistic): Figure[] => {
            const { ratio, low, high } = comparison.ttft_ms[statistic];
            if (ratio === null) return [];
            const interval = low === null || high === null ? null : ([low, high] as const);
            return [
              {
                ...bare,
                name: `${key} comparison ttft_ms ${statistic} ratio`,
                unit: 'x',
                value: ratio,
                better: 'higher',
                interval,
                byRound: ratioByRound(modes[comparison.reference]!, modes[comparison.candidate]!, statistic),
                of: compared,
              },
            ];
          })
        : []),
    ];
  });
}

/** Requests that both modes answered in the round. */
function ratioByRound(
  { samples: reference }: BenchMode,
  { samples: candidate }: BenchMode,
  statistic: 'mean' | 'p50',
): number[] {
  const value = statistic === 'mean' ? mean : median;
  return [...new Set(reference.map(({ round }) => round))].flatMap((round) => {
    const of = (samples: BenchMode['samples']) =>
      new Map(samples.flatMap((one) => (one.round === round ? [[turnKey(one), one.ttft_ms] as const] : [])));
    const [before, after] = [of(reference), of(candidate)];
    const both = [...before.keys()].filter((key) => after.has(key));
    if (both.length === 0) return [];
    const [slow, fast] = [before, after].map((times) => value(both.map((key) => times.get(key)!)));
    return [slow! / fast!];
  });
}

function sweepFigures({ series }: SweepReport): Figure[] {
  return series.flatMap((one) => {
    const name = seriesName(one);
    const crossover = one.crossover?.kind === 'crosses' ? one.crossover : null;
    return [
      ...one.points.flatMap(({ context_tokens, pull, recompute }) => {
        const point = `${name} ${context_tokens} tokens`;
        return [
          ...(pull
            ? [
                count(`${point} pulled_tokens`, 'tokens', pull.pulled_tokens, null),
                count(`${point} bytes`, 'bytes', pull.bytes, null),
                count(`${point} descriptors`, 'descriptors', pull.descriptors, null),
                ...byRound(`${point} pull ttft_ms`, pull.ttft_ms),
              ]
            : []),
          ...(recompute ? byRound(`${point} recompute ttft_ms`, recompute.ttft_ms) : []),
        ];
      }),
      ...(crossover && crossover.low !== null && crossover.high !== null
        ? [
            {
              ...bare,
              name: `${name} crossover`,
              unit: 'tokens',
              value: crossover.tokens,
              better: 'lower',
              needsSameMachine: true,
              interval: [crossover.low, crossover.high],
            } as const,
          ]
        : []),
    ];
  });
}

const byRound = (name: string, times: readonly number[]): Figure[] =>
  time(
    name,
    times.map((ms, round) => ({ key: String(round), round, ms })),
  );
