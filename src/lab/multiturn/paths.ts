/** The ways that KV can take, as arms of a benchmark: which connectors, and whether P pulls back. */
import type { CostProfile } from '../../config/cost-profile.ts';
import { OFFLOADING_DEFAULTS, type OffloadingConfig } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import type { PathName } from '../../config/paths.ts';
import type { RunConfig } from '../../config/run.ts';
import type { PolicyChange } from '../../fleet/types.ts';

export interface PathChoice {
  name: PathName;
  mode: Mode;
  connector: NonNullable<PolicyChange['connector']>;
  /** Set where costs decide; null or absent: they do not. */
  costProfile?: CostProfile | null;
}

export function pathChoice(
  name: PathName,
  { offloadPromptOnly }: Pick<RunConfig, 'offloadPromptOnly'>,
): PathChoice {
  const offloading = (change: Partial<OffloadingConfig>) => ({
    offloading: { ...OFFLOADING_DEFAULTS, promptOnly: offloadPromptOnly, ...change },
  });
  const beside = offloading({ handsOver: false });
  switch (name) {
    case 'recompute':
      return { name, mode: 'unidirectional', connector: { name: 'NixlConnector' } };
    case 'pull':
      return { name, mode: 'bidirectional', connector: { name: 'NixlConnector' } };
    case 'store':
      return {
        ...{ name, mode: 'unidirectional' },
        connector: { name: 'OffloadingConnector', ...offloading({ promptOnly: false }) },
      };
    case 'pd-reuse':
      return {
        ...{ name, mode: 'unidirectional' },
        connector: { name: 'AIBrixPDReuseConnector', ...offloading({ promptOnly: true }) },
      };
    case 'both':
      return {
        ...{ name, mode: 'bidirectional' },
        connector: {
          ...{ name: 'MultiConnector', ...beside },
          multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
        },
      };
    case 'cost-aware':
      return {
        ...{ name, mode: 'bidirectional' },
        connector: {
          ...{ name: 'MultiConnector', ...beside },
          multi: { composition: 'cost-aware', names: ['NixlConnector', 'OffloadingConnector'] },
        },
      };
    case 'first-hit':
      return {
        ...{ name, mode: 'bidirectional' },
        connector: {
          ...{ name: 'MultiConnector', ...beside },
          multi: { composition: 'first-hit', names: ['OffloadingConnector', 'NixlConnector'] },
        },
      };
  }
}
