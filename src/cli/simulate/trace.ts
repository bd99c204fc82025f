/** A trace as what is simulated: in full, unless --trace-scale says otherwise, with pools as large as are modelled. */
import type { RunConfig } from '../../config/run.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { countEngines } from '../../fleet/options.ts';
import { lookThrough, planReplay, type TraceTotals } from '../../lab/replay/replay.ts';
import { type Architecture, kvBlockBytes } from '../../model/types.ts';
import type { SimulationCosts } from '../../simulate/costs/types.ts';
import { LOWEST_TOKEN_ID } from '../../workload/made.ts';
import { describeScale } from '../../workload/traces/scale.ts';
import { TraceTokens } from '../../workload/traces/tokens.ts';
import { traceTurns } from '../../workload/traces/turns.ts';
import type { CliDeps } from '../deps.ts';
import { formatSeconds } from '../format.ts';
import { openNamedTrace } from '../trace/open.ts';
import { DEFAULT_BLOCKS, inArm, kvOf, type PlannedSimulation } from './plan.ts';

/** Ids are drawn from so many: as many as a large model has. */
const VOCABULARY = 128_000;

export interface PlannedTrace {
  planned: PlannedSimulation;
  source: string;
  totals: TraceTotals;
  /** Bad lines that were passed over; null: none. */
  passedOver: string | null;
}

/** Throws ConfigError. */
export async function planTrace(
  config: RunConfig,
  costs: SimulationCosts,
  architecture: Architecture,
  deps: Pick<CliDeps, 'readTextPieces'>,
): Promise<PlannedTrace> {
  const first = await openNamedTrace(config, deps);
  const { source, scale } = first;
  let passedOver: string | null = null;
  const open = async () => {
    const { requests, bad } = await openNamedTrace(config, deps);
    async function* turns() {
      yield* traceTurns(requests, { scale, maxModelLen: config.maxModelLen, bad });
      passedOver = bad.describe();
    }
    return turns();
  };
  const totals = await lookThrough({ source, scale, open });
  const maxModelLen = config.maxModelLen ?? totals.longest + 1;
  const blocks = Math.max(DEFAULT_BLOCKS, Math.ceil(maxModelLen / config.blockSize) + 1);
  const sized = {
    ...config,
    pBlocks: config.pBlocks ?? blocks,
    dBlocks: config.dBlocks ?? blocks,
    maxModelLen,
  };
  const options = clusterOptions(
    sized,
    { ...architecture, maxModelLen: Math.max(maxModelLen, architecture.maxModelLen) },
    false,
  );
  const plan = planReplay(config, options, totals);
  const tokens = new TraceTokens(VOCABULARY, config.seed);
  const load = { kind: 'trace', open, tokens } as const;
  return {
    planned: {
      options,
      arms: plan.arms.map((arm) => ({ label: arm.label, options: inArm(options, plan, arm), load })),
      costs,
      fleet: countEngines(options),
      ...kvOf(config, architecture),
      kvBytesPerToken: config.kvBytesPerToken ?? kvBlockBytes(architecture, 1, config.kvDtype),
      tokenIds: [LOWEST_TOKEN_ID, VOCABULARY],
      asked: `when the trace says, over ${formatSeconds(totals.lastMs)}; ${describeScale(scale)}`,
    },
    source,
    totals,
    passedOver,
  };
}
