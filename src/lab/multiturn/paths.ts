/** The KV paths as arms of a benchmark: which connectors are used, and whether P pulls from D. */

import { scaleDivisor } from '../../config/bench-schema.ts';
import {
  AIBRIX_LEAST_BLOCKS,
  LMCACHE_CHUNK,
  OFFLOADING_DEFAULTS,
  type OffloadingConfig,
} from '../../config/connectors.ts';
import type { CostProfile } from '../../config/cost-profile.ts';
import type { Composition } from '../../config/kv-connectors.ts';
import type { SingleConnectorName } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import type { PathName } from '../../config/paths.ts';
import type { RunConfig } from '../../config/run.ts';
import type { PolicyChange } from '../../fleet/types.ts';

type Connectors = NonNullable<PolicyChange['connector']>;

export interface PathChoice {
  name: PathName;
  mode: Mode;
  connector: Connectors;
  /** Costs for 'cost-aware'; null or absent: none. */
  costProfile?: CostProfile | null;
}

const PULL_FIRST = ['NixlConnector', 'OffloadingConnector'] as const;
const STORE_FIRST = ['OffloadingConnector', 'NixlConnector'] as const;

/** `blockSize`, `scale`: the fixed lengths of AIBrix and LMCache are scaled with the workload; LMCache's to whole blocks. */
export function pathChoice(
  name: PathName,
  {
    offloadPromptOnly,
    blockSize = 16,
    scale = '1',
  }: Pick<RunConfig, 'offloadPromptOnly'> & Partial<Pick<RunConfig, 'blockSize' | 'scale'>>,
): PathChoice {
  const scaled = (numTokens: number): number => numTokens / (scaleDivisor(scale) ?? 1);
  const offloading = (change: Partial<OffloadingConfig>) => ({
    offloading: { ...OFFLOADING_DEFAULTS, promptOnly: offloadPromptOnly, ...change },
  });
  const stored = (connector: Connectors['name'], promptOnly: boolean): Connectors => ({
    name: connector,
    ...offloading({ promptOnly }),
  });
  const composed = (composition: Composition, names: readonly SingleConnectorName[]): Connectors => ({
    name: 'MultiConnector',
    ...offloading({ handsOver: false }),
    multi: { composition, names },
  });
  switch (name) {
    case 'recompute':
      return { name, mode: 'unidirectional', connector: { name: 'NixlConnector' } };
    case 'pull':
      return { name, mode: 'bidirectional', connector: { name: 'NixlConnector' } };
    case 'store':
      return { name, mode: 'unidirectional', connector: stored('OffloadingConnector', false) };
    case 'pd-reuse':
      return { name, mode: 'unidirectional', connector: stored('AIBrixPDReuseConnector', true) };
    case 'aibrix-offloading': {
      const minLoadTokens = scaled(AIBRIX_LEAST_BLOCKS * blockSize);
      const changes = { saves: 'whole', minLoadTokens } as const;
      return {
        ...{ name, mode: 'unidirectional' },
        connector: { name: 'AIBrixOffloadingConnectorV1Type1', ...offloading(changes) },
      };
    }
    case 'lmcache': {
      const blocksPerChunk = Math.max(1, Math.round(scaled(LMCACHE_CHUNK) / blockSize));
      return {
        ...{ name, mode: 'unidirectional' },
        connector: { name: 'LMCacheConnectorV1', ...offloading({ promptOnly: true, blocksPerChunk }) },
      };
    }
    case 'both':
      return { name, mode: 'bidirectional', connector: composed('compose', PULL_FIRST) };
    case 'cost-aware':
      return { name, mode: 'bidirectional', connector: composed('cost-aware', PULL_FIRST) };
    case 'first-hit':
      return { name, mode: 'bidirectional', connector: composed('first-hit', STORE_FIRST) };
  }
}
