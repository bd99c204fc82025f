/**
 * Decode steps of engines that fuse kernels and of such that do not, step for step in turn, with the driver's threads and
 * without them: dispatches, time by the clock, and processor time, which says more on a busy machine.
 */
import { median } from '../../../measure/statistics.ts';
import type { ModelWeights } from '../../../model/types.ts';
import { formatMs } from '../../format.ts';
import { left, plainStyle, renderTable, right } from '../../table.ts';
import { type DecodeCase, decode, type EngineAlone, engineAlone, type StepTime } from './alone.ts';

const CASES: readonly DecodeCase[] = [64, 512].flatMap((context) =>
  [1, 4].map((sequences) => ({ context, sequences })),
);
const PROMPT = 512;
/** Whether the driver has threads of its own. */
const THREADS = [true, false];

interface Side {
  /** Of a decode step of one sequence; null: the adapter cannot time kernels, which is how they are counted. */
  dispatches: number | null;
  steps: StepTime[];
}

export interface FusionFigure extends DecodeCase {
  driverThreads: boolean;
  apart: Side;
  fused: Side;
}

export async function compareFusion(weights: ModelWeights, rounds: number): Promise<FusionFigure[]> {
  const figures: FusionFigure[] = [];
  for (const driverThreads of THREADS) {
    const open = (fuse: boolean) =>
      engineAlone(weights, { fuse, driverThreads, promptTokens: PROMPT, cases: CASES });
    const engines = { apart: await open(false), fused: await open(true) };
    try {
      const count = { apart: await dispatchesOf(engines.apart), fused: await dispatchesOf(engines.fused) };
      const steps = CASES.map(() => ({ apart: [] as StepTime[], fused: [] as StepTime[] }));
      for (let round = 0; round < rounds; round++) {
        process.stderr.write(`\rdriver threads ${driverThreads}: round ${round + 1} of ${rounds}`);
        for (const [i, each] of CASES.entries())
          for (const side of round % 2 ? (['apart', 'fused'] as const) : (['fused', 'apart'] as const))
            steps[i]![side].push(...(await decode(engines[side], each, `round ${round}`)));
      }
      process.stderr.write('\n');
      const side = (i: number, of: 'apart' | 'fused') => ({ dispatches: count[of], steps: steps[i]![of] });
      figures.push(
        ...CASES.map((each, i) => ({
          ...each,
          driverThreads,
          apart: side(i, 'apart'),
          fused: side(i, 'fused'),
        })),
      );
    } finally {
      engines.apart.close();
      engines.fused.close();
    }
  }
  return figures;
}

/** Timed submits tell how many kernels they hold; a decode step is one submit. */
async function dispatchesOf(engine: EngineAlone): Promise<number | null> {
  await decode(engine, CASES[0]!, 'warm');
  if (!engine.runner.setTiming('submits')) return null;
  await decode(engine, CASES[0]!, 'counted');
  engine.runner.setTiming(null);
  const step = engine.spans.findLast(({ name, args }) => name === 'kernels' && args.rows === 1);
  return step ? Number(step.args.kernels) : null;
}

export function fusionTable(figures: readonly FusionFigure[]): string[] {
  const columns = [
    left('threads, sequences at'),
    ...right('dispatches', 'apart ms', 'fused', 'ratio', 'processor ms', 'fused', 'ratio'),
  ];
  const rows = figures.map(({ driverThreads, context, sequences, apart, fused }) => {
    const cells = (of: (step: StepTime) => number): string[] => {
      const [before, after] = [median(apart.steps.map(of)), median(fused.steps.map(of))];
      return [formatMs(before), formatMs(after), (before / after).toFixed(2)];
    };
    return [
      `${driverThreads ? 'yes' : 'no'}, ${sequences} at ${context}`,
      apart.dispatches === null ? '?' : `${apart.dispatches} to ${fused.dispatches}`,
      ...cells(({ ms }) => ms),
      ...cells(({ processorMs }) => processorMs),
    ];
  });
  return renderTable(columns, rows, plainStyle);
}
