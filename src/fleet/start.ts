/** Starts the parts of a cluster in parallel: the engines, and the router's text model and policy. */
import type { Clock } from '../engine/types.ts';
import { kvGroups, kvPageBytes } from '../model/architecture/kv-groups.ts';
import { loadArchitecture, loadCheckpoint, loadTokenizer, type TextModel } from '../model/load.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineClient } from '../router/engine-client.ts';
import { type BuiltPolicy, buildPolicy } from './active-routing.ts';
import { describe } from './describe.ts';
import type { EnginePool } from './engine-pool.ts';
import type { ClusterHooks } from './hooks.ts';
import { checkMappings, checkMemory, checkRoom, sharedMemory } from './memory-needs.ts';
import { seatsOf } from './options.ts';
import { checkThreads, type Seat, withSeat } from './seats.ts';
import type { StoreThread } from './store-thread.ts';
import type { ThreadEngine } from './thread-engine.ts';
import { startThreads } from './thread-pool.ts';
import type { ClusterInfo, ClusterOptions } from './types.ts';

export interface ClusterParts {
  options: ClusterOptions;
  pool: EnginePool;
  text: TextModel;
  info: ClusterInfo;
  policy: BuiltPolicy;
  clock: Clock;
  /** The engine as the router sees it: the same client at every call. */
  clientOf: (engine: ThreadEngine) => EngineClient;
  /** null: none was asked for. */
  store: StoreThread | null;
  /** Throws AdapterError if the additional engines do not fit. */
  checkRoom: (options: ClusterOptions, more: readonly Pick<Seat, 'name' | 'role' | 'roleset'>[]) => void;
}

/** Reads the tokeniser while the engines start. Throws KvferryError; nothing is left running then. */
export async function startParts(
  platform: Platform,
  options: ClusterOptions,
  clock: Clock,
  { wire, client = (engine) => engine }: ClusterHooks,
): Promise<ClusterParts> {
  const begun = clock.now();
  checkThreads(seatsOf(options));
  const files = await platform.openModel(options.model);
  const architecture = await loadArchitecture(options.model, files);
  const free = platform.freeMemory();
  checkMemory(options, architecture, free);
  checkMappings(seatsOf(options).length, platform.freeMappings());
  const { blockSize, kvDtype } = options;
  const blockBytes = kvPageBytes(kvGroups(architecture), architecture, blockSize, kvDtype);
  const policy = await buildPolicy(options, blockBytes);
  const checking = loadCheckpoint(options.model, files);
  const [text, engines] = await Promise.allSettled([
    loadTokenizer(options.model, files),
    checking.then((checkpoint) => {
      const shared = sharedMemory(options, architecture, free);
      return startThreads(platform, clock, options, { checkpoint, shared }, wire);
    }),
  ]);
  if (text.status === 'rejected') {
    if (engines.status === 'fulfilled') await engines.value.shutdown();
    throw text.reason;
  }
  if (engines.status === 'rejected') throw engines.reason;
  const pool = engines.value;
  const model = { files, checkpoint: await checking };
  // The store's code is loaded only if there is one.
  const store = options.store
    ? await (await import('./store-thread.ts')).startStore(platform, options, pool, model, clock, wire)
    : null;
  const info = describe(options, pool, text.value, clock.now() - begun);
  const clients = new WeakMap<ThreadEngine, EngineClient>();
  const clientOf = (engine: ThreadEngine): EngineClient => {
    const known = clients.get(engine) ?? client(engine);
    clients.set(engine, known);
    return known;
  };
  const checkFleet: ClusterParts['checkRoom'] = (now, more) => {
    const { seats } = more.reduce(withSeat, pool.fleet);
    const joining = seats.filter(({ name }) => more.some((each) => each.name === name));
    checkRoom(now, joining, architecture, platform.freeMemory());
    checkMappings(more.length, platform.freeMappings());
  };
  return { options, pool, text: text.value, info, policy, clock, clientOf, store, checkRoom: checkFleet };
}
