/**
 * The server: one port for each engine, one for the router and one for the operator. Restarts engines that end. When stopped,
 * lets requests finish within a grace period.
 */
import type { Worker } from 'node:worker_threads';
import type { FaultBoard } from '../faults/board.ts';
import { startAutoscaler } from '../fleet/autoscaled.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import { droppedNote } from '../fleet/dropped-note.ts';
import type { AutoscaleDecision } from '../router/autoscale/loop.ts';
import type { AutoscaleChoice } from '../router/autoscale/registry.ts';
import type { EngineClient, EngineRole } from '../router/engine-client.ts';
import type { FailedTurn, TurnResult } from '../router/turn-types.ts';
import { EnginePorts } from './engine-ports.ts';
import { OneEngineService } from './engine-service.ts';
import { HostNames } from './host-names.ts';
import { checkAccess } from './http/access.ts';
import type { Ports } from './http/ports.ts';
import { keepAlive } from './keep-alive.ts';
import { observeEngine, observeRouter } from './observability.ts';
import { OpenPorts, type PortOptions } from './open-ports.ts';
import { mountFaults } from './operator/faults-route.ts';
import { mountFleet } from './operator/fleet-route.ts';
import { ScalingLog } from './operator/scaling-log.ts';
import { ClusterService } from './router-service.ts';
import { TextThread } from './text/text-thread.ts';
import { textTools } from './text/text-tools.ts';

export interface ServerOptions extends PortOptions {
  /** Names by which clients may request the model; empty: its own name. */
  servedModelNames: readonly string[];
  /** Engines are started with fault injection, and the admin port has /faults. */
  faultEndpoint: boolean;
  /** The autoscaler that decides how many engines there are; absent or null: only POST /fleet/scale does. */
  autoscale?: AutoscaleChoice | null;
  /** Called for each scaling decision, and when a turn has ended, for its routing decision. */
  onDecision?: (
    event:
      | { kind: 'scaling'; decision: AutoscaleDecision }
      | { kind: 'routing'; result: TurnResult }
      | { kind: 'routing of a failed turn'; turn: FailedTurn },
  ) => void;
}

export interface RunningServer {
  /** http://host:port. For prefill and decode: the first engine of that role. */
  readonly urls: Record<keyof Ports, string>;
  /** URL of every engine, by its name. */
  readonly engineUrls: Readonly<Record<string, string>>;
  readonly modelName: string;
  /** Admits no more requests, waits up to `graceMs` for those in progress, aborts the rest, and closes the cluster. */
  stop(graceMs: number): Promise<void>;
}

/**
 * Takes ownership of the cluster, and closes it also on errors. `faults`: the fault board with which the cluster was started.
 * Throws ConfigError.
 */
export async function startServer(
  cluster: EngineCluster,
  options: ServerOptions,
  startTextThread: (model: string) => Worker,
  faults: FaultBoard | null = null,
): Promise<RunningServer> {
  const local = await checkAccess(options).catch(async (error: unknown) => {
    await cluster.close();
    throw error;
  });
  const served = servedModel(cluster, options);
  const longTexts = new TextThread(() => startTextThread(cluster.settings.model));
  const text = textTools(cluster.text, (long, signal) => longTexts.encode(long, signal));
  const ports = new OpenPorts(options, local, faults);
  const hostNames = new HostNames(ports.hosts);
  const clientOf = faults?.client ?? ((engine: EngineClient) => engine);
  const openEngine = (name: string, port: number) => {
    const service = new OneEngineService(cluster, name, served, text, hostNames, clientOf);
    return ports.open(service, observeEngine(service, cluster), port);
  };
  const scalings = new ScalingLog(cluster, options.autoscale ?? null, options.log);
  const revival = keepAlive(cluster, options.log);
  noteDecisions(cluster, options);
  if (faults) faults.kill = (name) => kill(cluster, name);
  let engines: EnginePorts | null = null;
  let stopScaling = () => {};
  const stop = async (graceMs: number) => {
    faults?.clear();
    stopScaling();
    engines?.close();
    await engines?.settled();
    await ports.close(graceMs);
    await longTexts.close();
    // A closed cluster starts none of the engines that a restart has still to come to.
    await Promise.all([revival.stop(), cluster.close()]);
  };
  try {
    const ofEngines = await EnginePorts.start(cluster, openEngine, options.ports, options.log);
    engines = ofEngines;
    const engineUrls = ofEngines.urls;
    const router = new ClusterService(cluster, served, text);
    const observability = observeRouter(router, () => cluster.members.staying);
    const { url: routerUrl } = await ports.open(router, observability, options.ports.router);
    const admin = await ports.openAdmin((app, admission) => {
      mountFleet(app, { cluster, ports: ofEngines, scalings, clientOf, admission });
      if (faults) mountFaults(app, faults, () => cluster.engines.map(({ name }) => name));
    });
    if (options.autoscale)
      stopScaling = startAutoscaler(cluster, options.autoscale, {
        decided(decision, acts) {
          scalings.decided(decision, acts);
          observability.decided(decision);
          options.onDecision?.({ kind: 'scaling', decision });
        },
        failed: (message) => scalings.failed(message),
      });
    const first = (role: EngineRole): string =>
      engineUrls[cluster.engines.find((engine) => engine.role === role)?.name ?? ''] ??
      Object.values(engineUrls)[0]!;
    const urls = { prefill: first('prefill'), decode: first('decode'), router: routerUrl, admin };
    return { urls, engineUrls, modelName: served.names[0]!, stop };
  } catch (error) {
    await stop(0);
    throw error;
  }
}

const servedModel = ({ info: { model } }: EngineCluster, { servedModelNames }: ServerOptions) => ({
  names: servedModelNames.length > 0 ? servedModelNames : [model.name],
  maxModelLen: model.maxModelLen,
  vocabSize: model.vocabSize,
  eosTokenIds: model.eosTokenIds,
});

async function kill({ engines }: EngineCluster, name: string): Promise<void> {
  const engine = engines.find((each) => each.name === name);
  // One that has ended already is as good as killed.
  await engine?.lab.loseDevice().catch((error: unknown) => {
    if (!engine.ended) throw error;
  });
}

/** Logs what the operator should know of, and reports the routing decisions. */
function noteDecisions(cluster: EngineCluster, { onDecision, log }: ServerOptions): void {
  cluster.onNotice((notice) => {
    if (notice.kind === 'turn ended') onDecision?.({ kind: 'routing', result: notice.result });
    if (notice.kind === 'turn failed') onDecision?.({ kind: 'routing of a failed turn', turn: notice });
    if (notice.kind === 'engine' && notice.event.kind === 'hold_dropped')
      log.note(`${notice.engineId}: ${droppedNote(notice.event.direction)}`);
    if (notice.kind === 'store') log.note(notice.message);
  });
}
