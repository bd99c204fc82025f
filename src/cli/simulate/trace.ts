/** Plans a simulation of a trace: loads its turns into memory, and sizes the context to hold them. */
import type { RunConfig } from '../../config/run.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { Workload } from '../../lab/multiturn/report.ts';
import { planReplay, thresholdNotes, traceTotals } from '../../lab/replay/replay.ts';
import type { Architecture } from '../../model/types.ts';
import { inStepsOf, type SimulationCosts } from '../../simulate/costs/types.ts';
import { LOWEST_TOKEN_ID } from '../../workload/random-conversations.ts';
import { describeScale } from '../../workload/traces/scale.ts';
import { TraceTokens } from '../../workload/traces/tokens.ts';
import { traceTurns } from '../../workload/traces/turns.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import type { CliDeps } from '../deps.ts';
import { type Given, openNamedTrace } from '../trace/open.ts';
import { DEFAULT_BLOCKS, kvOf, type PlannedSimulation, plannedOf } from './plan.ts';

export interface SimulatedTrace {
  planned: PlannedSimulation;
  /** For the report, which only needs counts of conversations and turns. */
  workload: Pick<Workload, 'source' | 'scale'> & { conversations: number; turns: number };
}

/** `traceBlockSize`: unscaled tokens of a hash id. Throws ConfigError for a trace that cannot be served by this fleet. */
export async function planTrace(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: Pick<CliDeps, 'readTextPieces'>,
  given: Given,
): Promise<SimulatedTrace & { traceBlockSize: number }> {
  const { source, scale, drawn, requests, bad } = await openNamedTrace(config, deps, given);
  const turns: TraceTurn[] = [];
  for await (const turn of traceTurns(requests, { scale, maxModelLen: config.maxModelLen, bad }))
    turns.push(turn);
  const totals = await traceTotals({ source, scale, drawn, open: async () => inMemory(turns) });
  // A simulation computes nothing, so its context may exceed the model's.
  const longest = config.maxModelLen ?? Math.max(architecture.maxModelLen, totals.longest);
  const blocks = { pBlocks: config.pBlocks ?? DEFAULT_BLOCKS, dBlocks: config.dBlocks ?? DEFAULT_BLOCKS };
  const kv = kvOf(config, architecture);
  const like = clusterOptions(
    { ...inStepsOf(costs, config), ...blocks, maxModelLen: longest },
    { ...architecture, maxModelLen: longest },
    false,
  );
  const options = { ...like, kvCacheGroups: kv.groups };
  const plan = planReplay(config, options, totals);
  const load = {
    kind: 'trace',
    turns,
    tokens: new TraceTokens(architecture.vocabSize, config.seed),
  } as const;
  const skipped = bad.describe();
  const described = [
    describeScale(scale, drawn, config.limit),
    ...thresholdNotes(config, scale),
    ...(skipped ? [skipped] : []),
  ];
  return {
    traceBlockSize: scale.traceBlockSize,
    planned: plannedOf(options, [plan], load, {
      costs,
      ...kv,
      tokenIds: [LOWEST_TOKEN_ID, architecture.vocabSize],
      asked: `at ${drawn ? 'drawn times' : "the trace's arrival times"}. ${described.join(' ')}`.replace(
        /\.$/,
        '',
      ),
      closedLoop: false,
    }),
    workload: {
      source,
      scale: scale.lengthDivisor === 1 ? '1' : `1/${scale.lengthDivisor}`,
      conversations: totals.conversations,
      turns: totals.requests,
    },
  };
}

async function* inMemory(turns: readonly TraceTurn[]): AsyncGenerator<TraceTurn> {
  yield* turns;
}
