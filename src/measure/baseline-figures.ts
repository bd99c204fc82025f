/** The figures of a report that are worth holding against an earlier one's, whichever kind it is. */
import { mean } from 'simple-statistics';
import type { BenchReport } from './bench-report.ts';
import type { Report } from './report.ts';
import type { AnyReport } from './report-kinds.ts';
import { type SweepReport, seriesName } from './sweep-report.ts';
import { turnKey } from './turn-key.ts';

export interface Figure {
  /** The same in every report of the kind, e.g. 'bidirectional ttft_ms'. */
  name: string;
  unit: 'tokens' | 'bytes' | 'pipelines' | 'descriptors' | 'ms' | 'x' | 'tokens/s';
  value: number;
  /** null for a count, which is exact. */
  better: 'lower' | 'higher' | null;
  /** A ratio of two times of one machine holds on another one too. */
  needsSameMachine: boolean;
  /** Of the single requests, by a key that names the request; empty when the figure has none. */
  samples: ReadonlyMap<string, number>;
  /** Of each round; empty for a single one. */
  roundMeans: readonly number[];
  /** 95%, as the report gives it. */
  interval: readonly [number, number] | null;
}

const bare = { needsSameMachine: false, samples: new Map(), roundMeans: [], interval: null } as const;

const count = (name: string, unit: Figure['unit'], value: number): Figure => ({
  ...bare,
  name,
  unit,
  value,
  better: null,
});

/** Of so many samples by name; none: no figure. `value`: where it is not the samples' mean. */
function time(
  name: string,
  samples: ReadonlyMap<string, number>,
  roundMeans: readonly number[] = [],
  value = samples.size > 0 ? mean([...samples.values()]) : 0,
): Figure[] {
  if (samples.size === 0) return [];
  return [{ ...bare, name, unit: 'ms', value, better: 'lower', needsSameMachine: true, samples, roundMeans }];
}

const TOKENS = [
  'prompt_tokens',
  'local_hit_tokens',
  'pulled_tokens',
  'computed_tokens',
  'output_tokens',
] as const;
const BYTES = ['bytes_p_to_d', 'bytes_d_to_p'] as const;

/** What a server does not tell is null, and no figure. */
function counts(
  mode: string,
  of: Readonly<Record<(typeof TOKENS)[number] | (typeof BYTES)[number], number | null>>,
): Figure[] {
  const known = (name: keyof typeof of, unit: Figure['unit']): Figure[] =>
    of[name] === null ? [] : [count(`${mode} ${name}`, unit, of[name])];
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
  const figures = runs.flatMap(({ mode, turns, summary }): Figure[] => {
    const timed = (
      what: 'ttft_ms' | 'tpot_ms' | 'latency_ms',
      name: string = what,
      list: typeof turns = turns,
    ): Figure[] => {
      const known = list.flatMap((turn): [string, number][] => {
        const ms = turn[what];
        return ms === null ? [] : [[turnKey(turn), ms]];
      });
      return time(`${mode} ${name}`, new Map(known));
    };
    const later = turns.filter(({ turn }) => turn > 1);
    return [
      ...counts(mode, summary),
      count(`${mode} first_use_compilations`, 'pipelines', summary.first_use_compilations),
      ...timed('ttft_ms'),
      ...timed('ttft_ms', 'ttft_later_turns_ms', later),
      ...timed('tpot_ms'),
      ...timed('latency_ms'),
    ];
  });
  const saved = comparison?.computed_tokens_saved;
  return saved === null || saved === undefined
    ? figures
    : [...figures, count('computed_tokens_saved', 'tokens', saved)];
}

function benchFigures({ experiments }: BenchReport): Figure[] {
  return Object.entries(experiments).flatMap(([key, { modes, comparison }]) => [
    ...Object.entries(modes).flatMap(([mode, measured]): Figure[] => {
      const name = `${key} ${mode}`;
      return [
        ...counts(name, measured),
        ...(['ttft_ms', 'tpot_ms', 'latency_ms'] as const).flatMap((what) =>
          roundedTime(`${name} ${what}`, what, measured.samples),
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
            },
          ];
        })
      : []),
  ]);
}

type Samples = BenchReport['experiments'][string]['modes'][string]['samples'];

/** A request's time is its mean over the rounds. */
function roundedTime(name: string, what: 'ttft_ms' | 'tpot_ms' | 'latency_ms', list: Samples): Figure[] {
  if (list.length === 0) return [];
  const means = (keyOf: (sample: Samples[number]) => string): Map<string, number> => {
    const groups = new Map<string, number[]>();
    for (const sample of list) {
      const key = keyOf(sample);
      const group = groups.get(key);
      if (group) group.push(sample[what]);
      else groups.set(key, [sample[what]]);
    }
    return new Map([...groups].map(([key, values]) => [key, mean(values)]));
  };
  const samples = means(turnKey);
  const roundMeans = [...means(({ round }) => String(round)).values()];
  return time(name, samples, roundMeans, mean(list.map((sample) => sample[what])));
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
                count(`${point} pulled_tokens`, 'tokens', pull.pulled_tokens),
                count(`${point} bytes`, 'bytes', pull.bytes),
                count(`${point} descriptors`, 'descriptors', pull.descriptors),
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
  time(name, new Map(times.map((ms, round) => [String(round), ms])), times);
