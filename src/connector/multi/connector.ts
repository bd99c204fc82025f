/** vLLM's MultiConnector: combines several connectors into one. */

import { STORE_ADDRESS } from '../../config/connectors.ts';
import type { Composition } from '../../config/kv-connectors.ts';
import { kvBytesOf } from '../policy/cost-model.ts';
import { SourceCosts, type SourceCostsDeps } from '../policy/source-costs.ts';
import type { ConnectorDeps, EngineConnector, StoreCounters, TransferCounters } from '../types.ts';
import { MultiSchedulerSide, weighsCosts } from './scheduler-side.ts';
import { SecondHops } from './second-hops.ts';
import { MultiWorkerSide } from './worker-side.ts';

export function createMultiConnector(
  composition: Composition,
  makers: readonly ((deps: ConnectorDeps) => EngineConnector)[],
  deps: ConnectorDeps,
  /** Measured cost of loads from the store, if known. */
  known: Pick<SourceCostsDeps, 'load' | 'linked'> | null = null,
): EngineConnector {
  const { blockBytes } = deps.transport.identity;
  const children: EngineConnector[] = [];
  let costs: SourceCosts | null = null;
  const { blockSize, groups } = deps.engine.cache;
  const secondHops = new SecondHops({
    ...{ blockSize, blockBytes },
    storedTokens: (requestId) => children.find(({ store }) => store)?.store?.storedTokens(requestId) ?? null,
  });
  for (const make of makers) {
    children.push(
      make({
        ...deps,
        keptElsewhere: (requestId) => worker.keptTwice(requestId),
        worthOfBlockMs: (request) =>
          weighsCosts(composition, request) ? (costs?.worthOfBlockMs(request) ?? null) : null,
        pullsAreWeighed: composition === 'cost-aware' && known !== null,
        composed: composition === 'compose' || composition === 'cost-aware',
        onTransfer(info) {
          const { outcome, wallMs } = info.result;
          if (info.remote.engineId !== STORE_ADDRESS.engineId)
            secondHops.pulled(info.requestId, outcome === 'done');
          else costs?.ended(info.requestId, outcome === 'done' ? wallMs : null);
          deps.onTransfer(info);
        },
      }),
    );
  }
  const kvBytes = kvBytesOf(blockSize, Math.max(...blockBytes), groups);
  const pulls = children.find(({ costAware }) => costAware)?.costAware ?? null;
  costs = known && pulls && new SourceCosts({ ...known, pulls, blockSize, kvBytes });
  const store = children.findIndex((child) => child.store);
  const scheduler = new MultiSchedulerSide({
    children,
    store: store < 0 ? null : store,
    composition,
    secondHops,
    costs,
  });
  const worker = new MultiWorkerSide(children.map((child) => child.worker));
  const holds = children.find((child) => child.holds)?.holds;
  const ofStore = children[store]?.store;
  return {
    scheduler,
    worker,
    streams: scheduler,
    ...(holds ? { holds } : {}),
    get counters() {
      return children.map(({ counters }) => counters).reduce(sum);
    },
    costAware: pulls,
    ...(ofStore
      ? {
          store: {
            storedTokens: ofStore.storedTokens,
            get counters(): StoreCounters {
              const { twoHopBytes, ...rest } = ofStore.counters;
              return { ...rest, twoHopBytes: twoHopBytes + secondHops.bytes };
            },
          },
        }
      : {}),
  };
}

function sum(a: TransferCounters, b: TransferCounters): TransferCounters {
  const added = <T extends Record<string, number>>(x: T, y: T): T =>
    Object.fromEntries(Object.entries(x).map(([key, value]) => [key, value + y[key]!])) as T;
  const { holdsDropped, pullsNotDone, ...plain } = a;
  const { holdsDropped: dropped, pullsNotDone: notDone, ...others } = b;
  return {
    ...added(plain, others),
    holdsDropped: added(holdsDropped, dropped),
    pullsNotDone: added(pullsNotDone, notDone),
  };
}
