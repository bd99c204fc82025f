/** The times of the tiers below a store's memory, and where they come from. */

import type { StoreOptions } from '../../fleet/types.ts';
import type { SimulationReport } from '../../measure/schemas/simulation-report.ts';
import type { ByBytes, CostSource, Medium, SimulationCosts } from './types.ts';

export interface MediumTimes {
  read: ByBytes;
  write: ByBytes;
  /** 'assumed' where the costs give no times. */
  source: { read: CostSource; write: CostSource };
}

const MEDIA: readonly Medium[] = ['folder', 'server'];

/** Tiers below a store's memory, nearest first. */
export const mediaBelow = (store: Pick<StoreOptions, Medium>): Medium[] =>
  MEDIA.filter((medium) => store[medium]);

/** Times of a store and its tiers, with their sources, for a report. */
export function storeTimes(
  store: StoreOptions,
  costs: Pick<SimulationCosts, 'store' | 'source'>,
): NonNullable<SimulationReport['store_times']> {
  const said = ({ fixedMs, msPerByte }: ByBytes, by: CostSource) => {
    return { fixed_ms: fixedMs, ms_per_byte: msPerByte, source: by };
  };
  const tiers = mediaBelow(store).map((tier) => {
    const { read, write, source } = tierTimes(costs, tier);
    return { tier, read: said(read, source.read), write: said(write, source.write) };
  });
  return { assumed: costs.store === null, tiers };
}

/**
 * Used where the costs give no times: an SSD of 2 GB/s, and a server that answers in half a millisecond over 10 Gbit/s.
 */
const ASSUMED: Readonly<Record<Medium, ByBytes>> = {
  folder: { fixedMs: 0.1, msPerByte: 1 / 2e6 },
  server: { fixedMs: 0.5, msPerByte: 1 / 1.25e6 },
};

/** If the costs give no times for writes, writes take what reads take. */
export function tierTimes(
  { store, source }: Pick<SimulationCosts, 'store' | 'source'>,
  medium: Medium,
): MediumTimes {
  const said = store?.[medium] ?? null;
  const read = said?.read ?? ASSUMED[medium];
  return {
    read,
    write: said?.write ?? read,
    source: { read: said ? source : 'assumed', write: said?.write ? source : 'assumed' },
  };
}
