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

export function figuresOf(report: AnyReport): Figure[] {
  if (report.kind === 'bench') return benchFigures(report);
  return report.kind === 'sweep' ? sweepFigures(report) : runFigures(report);
}

function runFigures({ runs, comparison }: Report): Figure[] {
  const figures = runs.flatMap(({ mode, turns, summary }): Figure[] => {
    const time = (
      name: string,
      list: typeof turns,
      value: (turn: (typeof turns)[number]) => number | null,
    ): Figure[] => {
      const samples = new Map(
        list.flatMap((turn) => {
          const ms = value(turn);
          return ms === null ? [] : [[turnKey(turn), ms] as const];
        }),
      );
      if (samples.size === 0) return [];
      const sum = [...samples.values()].reduce((total, ms) => total + ms, 0);
      return [
        {
          ...bare,
          name: `${mode} ${name}`,
          unit: 'ms',
          value: sum / samples.size,
          better: 'lower',
          needsSameMachine: true,
          samples,
        },
      ];
    };
    return [
      ...(
        ['prompt_tokens', 'local_hit_tokens', 'pulled_tokens', 'computed_tokens', 'output_tokens'] as const
      ).map((name) => count(`${mode} ${name}`, 'tokens', summary[name])),
      ...(['bytes_p_to_d', 'bytes_d_to_p'] as const).map((name) =>
        count(`${mode} ${name}`, 'bytes', summary[name]),
      ),
      count(`${mode} first_use_compilations`, 'pipelines', summary.first_use_compilations),
      ...time('ttft_ms', turns, (turn) => turn.ttft_ms),
      ...time(
        'ttft_later_turns_ms',
        turns.filter(({ turn }) => turn > 1),
        (turn) => turn.ttft_ms,
      ),
      ...time('tpot_ms', turns, (turn) => turn.tpot_ms),
      ...time('latency_ms', turns, (turn) => turn.latency_ms),
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
        ...(
          ['prompt_tokens', 'local_hit_tokens', 'pulled_tokens', 'computed_tokens', 'output_tokens'] as const
        ).flatMap((what) =>
          measured[what] === null ? [] : [count(`${name} ${what}`, 'tokens', measured[what])],
        ),
        ...(['bytes_p_to_d', 'bytes_d_to_p'] as const).flatMap((what) =>
          measured[what] === null ? [] : [count(`${name} ${what}`, 'bytes', measured[what])],
        ),
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
  const value = list.reduce((sum, sample) => sum + sample[what], 0) / list.length;
  return [{ ...bare, name, unit: 'ms', value, better: 'lower', needsSameMachine: true, samples, roundMeans }];
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

function byRound(name: string, times: readonly number[]): Figure[] {
  if (times.length === 0) return [];
  const samples = new Map(times.map((ms, round) => [String(round), ms]));
  return [
    {
      ...bare,
      name,
      unit: 'ms',
      value: mean([...times]),
      better: 'lower',
      needsSameMachine: true,
      samples,
      roundMeans: times,
    },
  ];
}
