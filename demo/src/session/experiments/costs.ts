/** Costs of steps and READs on the page's own engines, measured for the simulated fleet. */
import type { ReadonlySignal } from '@preact/signals';
import { signal } from '@preact/signals';
import type { SimulationCostsFile } from '../../../../src/simulate/costs/linear.ts';
import { CostMeter } from '../../../../src/simulate/costs/measure.ts';
import { type Measuring, RUNS } from './measuring.ts';

export interface CostsHere {
  costs: SimulationCostsFile;
  kvBytesPerToken: number;
}

const measured = signal<CostsHere | null>(null);
/** The last measured costs; null: none yet on this page. */
export const costsHere: ReadonlySignal<CostsHere | null> = measured;

/** Leaves the engines with other conversations' KV. Throws what the engines throw. */
export async function measureCosts({ engines, settings, signal: stop, emit, now }: Measuring): Promise<void> {
  const { cluster } = engines.running!;
  const meter = new CostMeter(cluster, { seed: settings.seed, signal: stop });
  // The first round is a warm-up.
  for (let round = 0; round <= RUNS; round++) {
    const message = 'Measuring the times of steps and copies';
    emit({ kind: 'status', atMs: now(), phase: 'busy', message, progress: round / (RUNS + 1) });
    await meter.round();
  }
  const { file } = meter.costs();
  const { kvBytesPerToken } = cluster.info.model;
  // In the simulated fleet each engine has its own machine; here they share one, so its disturbances are dropped.
  measured.value = { costs: { ...file, varies: null, speeds: null }, kvBytesPerToken };
}
