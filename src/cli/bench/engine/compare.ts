/**
 * Compares two engines that differ in one setting, alternating step by step; on lavapipe with and without driver threads.
 * Reports dispatches, wall time, and processor time, which is more reliable on a busy machine.
 */

import { formatMs } from '../../../measure/format.ts';
import { median } from '../../../measure/statistics.ts';
import type { OnDeviceOptions } from '../../../model/on-device.ts';
import type { ModelWeights } from '../../../model/types.ts';
import { left, right } from '../../../report/document.ts';
import { plainStyle, renderTable } from '../../output/table.ts';
import { type DecodeCase, decode, type EngineAlone, engineAlone, prefill, type StepTime } from './alone.ts';

/** The labels of the two engines, before and after. */
interface Comparison {
  names: readonly [string, string];
  options: readonly [Difference, Difference];
}
type Difference = Pick<OnDeviceOptions, 'fuse' | 'subgroups'>;

/** By the value of --compare. */
export const COMPARISONS = {
  fusion: { names: ['apart', 'fused'], options: [{ fuse: false }, { fuse: true }] },
  subgroups: { names: ['without', 'with'], options: [{ subgroups: false }, { subgroups: true }] },
} as const satisfies Record<string, Comparison>;
export type ComparisonName = keyof typeof COMPARISONS;

const CASES: readonly DecodeCase[] = [64, 512].flatMap((context) =>
  [1, 4].map((sequences) => ({ context, sequences })),
);
const PROMPT = 512;

type Times = Pick<StepTime, 'ms' | 'processorMs'>;
type Both<T> = readonly [T, T];

export interface ComparedFigure {
  what: string;
  /** null: this driver cannot run without its threads. */
  driverThreads: boolean | null;
  /** Dispatches of a decode step of one sequence; null: the adapter cannot time kernels, which is how they are counted. */
  dispatches: Both<number | null>;
  times: Both<readonly Times[]>;
}

export async function compareEngines(
  weights: ModelWeights,
  rounds: number,
  { options }: Comparison,
  /** Whether the driver can run without its own threads, as lavapipe can. */
  canDoWithout: boolean,
): Promise<ComparedFigure[]> {
  const figures: ComparedFigure[] = [];
  for (const driverThreads of canDoWithout ? [true, false] : [null]) {
    const open = (own: Difference) =>
      engineAlone(weights, { ...own, driverThreads, promptTokens: PROMPT, cases: CASES });
    const engines: Both<EngineAlone> = [await open(options[0]), await open(options[1])];
    try {
      const dispatches = [await dispatchesOf(engines[0]), await dispatchesOf(engines[1])] as const;
      const figure = (what: string) => ({
        what,
        driverThreads,
        dispatches,
        times: [[], []] as Both<Times[]>,
      });
      const prefills = figure(`prefill of ${PROMPT}`);
      const decodes = CASES.map(({ sequences, context }) => figure(`${sequences} at ${context}`));
      for (let round = 0; round < rounds; round++) {
        const threads = driverThreads === null ? '' : `driver threads ${driverThreads}: `;
        process.stderr.write(`\r${threads}round ${round + 1} of ${rounds}`);
        const order = round % 2 ? ([0, 1] as const) : ([1, 0] as const);
        for (const side of order) prefills.times[side].push(await timePrefill(engines[side], round));
        for (const [i, each] of CASES.entries())
          for (const side of order)
            decodes[i]!.times[side].push(...(await decode(engines[side], each, `round ${round}`)));
      }
      process.stderr.write('\n');
      figures.push(prefills, ...decodes);
    } finally {
      for (const engine of engines) engine.destroy();
    }
  }
  return figures;
}

async function timePrefill(engine: EngineAlone, round: number): Promise<Times> {
  const before = process.cpuUsage();
  const ms = await prefill(engine, PROMPT, round);
  const { user, system } = process.cpuUsage(before);
  return { ms, processorMs: (user + system) / 1000 };
}

/** Timed submits report their number of kernels; a decode step is one submit. */
async function dispatchesOf(engine: EngineAlone): Promise<number | null> {
  await decode(engine, CASES[0]!, 'warm');
  if (!engine.runner.setTiming('submits')) return null;
  await decode(engine, CASES[0]!, 'counted');
  engine.runner.setTiming(null);
  const step = engine.spans.findLast(({ name, args }) => name === 'kernels' && args.rows === 1);
  return step ? Number(step.args.kernels) : null;
}

export function comparedTable(figures: readonly ComparedFigure[], { names }: Comparison): string[] {
  const [one, other] = names;
  const columns = [
    left('threads, sequences at'),
    ...right('dispatches', `${one} ms`, other, 'ratio', 'processor ms', other, 'ratio'),
  ];
  const rows = figures.map(({ what, driverThreads, dispatches, times }) => {
    const cells = (of: (time: Times) => number): string[] => {
      const [before, after] = [median(times[0].map(of)), median(times[1].map(of))];
      return [formatMs(before), formatMs(after), (before / after).toFixed(2)];
    };
    return [
      `${driverThreads === null ? '-' : driverThreads ? 'yes' : 'no'}, ${what}`,
      dispatches[0] === null ? '?' : `${dispatches[0]} to ${dispatches[1]}`,
      ...cells(({ ms }) => ms),
      ...cells(({ processorMs }) => processorMs),
    ];
  });
  return renderTable(columns, rows, plainStyle);
}
