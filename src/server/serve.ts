/**
 * The server: one port for each engine, one for the router and one for the operator. Restarts engines that end. When stopped,
 * lets requests finish within a grace period.
 */
import type { Worker } from 'node:worker_threads';
import type { Hono } from 'hono';
import type { SamplingParams } from '../engine/types.ts';
import type { FaultBoard } from '../faults/board.ts';
import { startAutoscaler } from '../fleet/autoscaled.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import { droppedNote } from '../fleet/dropped-note.ts';
import type { AutoscaleDecision } from '../router/autoscale/loop.ts';
import type { AutoscaleChoice } from '../router/autoscale/registry.ts';
import type { EngineClient, EngineRole } from '../router/engine-client.ts';
import type { TurnResult } from '../router/turn-types.ts';
import { createApp } from './app.ts';
import { EnginePorts } from './engine-ports.ts';
import { OneEngineService } from './engine-service.ts';
import { HostNames } from './host-names.ts';
import { type AccessOptions, checkAccess } from './http/access.ts';
import { Admission } from './http/admission.ts';
import { ownNames } from './http/host-check.ts';
import { closePorts, FAREWELL_MS, listenOn, type OpenPort, urlOf } from './http/listening.ts';
import type { ServerLog } from './http/log.ts';
import type { Ports } from './http/ports.ts';
import { keepAlive } from './keep-alive.ts';
import { type Observability, observeEngine, observeRouter } from './observability.ts';
import { mountFaults, portFailure } from './operator/faults-route.ts';
import { mountFleet } from './operator/fleet-route.ts';
import { adminApp, isOperator, mountOnClientPort, type Observed } from './operator/operator.ts';
import { ScalingLog } from './operator/scaling-log.ts';
import { ClusterService } from './router-service.ts';
import type { PortService } from './service.ts';
import { TextThread } from './text/text-thread.ts';
import { textTools } from './text/text-tools.ts';

export interface ServerOptions extends AccessOptions {
  ports: Ports;
  /** Names by which clients may request the model; empty: its own name. */
  servedModelNames: readonly string[];
  maxQueue: number;
  corsOrigins: readonly string[];
  /** Host names that requests may use, in addition to this machine's own; '*': any. */
  allowedHosts: readonly string[];
  streamingKvParams: boolean;
  /** Milliseconds after which a connection ends if its client reads none of the waiting bytes. */
  writeTimeoutMs: number;
  /** Sampling parameters for requests that do not set them. */
  defaults: Partial<SamplingParams>;
  /** Engines are started with fault injection, and the admin port has /faults. */
  faultEndpoint: boolean;
  version: string;
  log: ServerLog;
  /** The autoscaler that decides how many engines there are; absent or null: only POST /fleet/scale does. */
  autoscale?: AutoscaleChoice | null;
  /** Called for each scaling and routing decision, to explain it. */
  onDecision?: (
    event: { kind: 'scaling'; decision: AutoscaleDecision } | { kind: 'routing'; result: TurnResult },
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
  const { model } = cluster.info;
  const served = {
    names: options.servedModelNames.length > 0 ? options.servedModelNames : [model.name],
    maxModelLen: model.maxModelLen,
    vocabSize: model.vocabSize,
    eosTokenIds: model.eosTokenIds,
  };
  const longTexts = new TextThread(() => startTextThread(cluster.settings.model));
  const text = textTools(cluster.text, (long, signal) => longTexts.encode(long, signal));
  const namesOf = (host: string) => [...ownNames(host), ...options.allowedHosts];
  const hosts = namesOf(options.host);
  const hostNames = new HostNames(hosts);
  const clientOf = faults?.client ?? ((engine: EngineClient) => engine);
  const router = new ClusterService(cluster, served, text);
  const created = Math.floor(Date.now() / 1000);
  const opened = new Set<OpenPort>();
  const observed = new Set<Observed>();
  const { writeTimeoutMs } = options;
  let local = false;
  const open = async (service: PortService, observability: Observability, port: number) => {
    const { adminKey, adminOnClientPorts } = options;
    const rule = { adminKey, local };
    const entry = { service, observability };
    const mount = (app: Hono): void => {
      observability.mountMetrics(app, isOperator(rule));
      if (adminOnClientPorts) mountOnClientPort(app, entry, rule);
    };
    const admission = new Admission(service.maxNumSeqs, options.maxQueue);
    const { observer, answered } = observability;
    const failure = () => {
      const fault = faults?.atPort(service.name);
      return fault ? portFailure(fault) : null;
    };
    const shared = { observer, answered, failure, mount, created, admission, hosts };
    const app = createApp(service, { ...options, ...shared });
    const server = await listenOn(app, { host: options.host, port, writeTimeoutMs });
    const opening = { server, admission };
    opened.add(opening);
    observed.add(entry);
    admin.renew();
    return {
      url: urlOf(options.host, server),
      async close(): Promise<void> {
        opened.delete(opening);
        observed.delete(entry);
        admin.renew();
        observability.close();
        await closePorts([opening], FAREWELL_MS);
      },
    };
  };
  const openEngine = (name: string, port: number) => {
    const service = new OneEngineService(cluster, name, served, text, hostNames, clientOf);
    const observability = observeEngine(service, cluster);
    return open(service, observability, port).catch((error: unknown) => {
      observability.close();
      throw error;
    });
  };
  const admin = adminPort(() => {
    const app = adminApp([...observed], { ...options, hosts: namesOf(options.adminHost) });
    if (engines) mountFleet(app, cluster, engines, scalings, clientOf);
    if (faults) mountFaults(app, faults, () => cluster.engines.map(({ name }) => name));
    return app;
  });
  const openAdmin = async (): Promise<string> => {
    const { adminHost: host, ports } = options;
    const server = await listenOn(admin, { host, port: ports.admin, writeTimeoutMs });
    opened.add({ server, admission: null });
    return urlOf(options.adminHost, server);
  };
  let engines: EnginePorts | null = null;
  let stopScaling = () => {};
  const scalings = new ScalingLog(cluster, options.autoscale ?? null, options.log);
  const revival = keepAlive(cluster, options.log);
  cluster.onNotice((notice) => {
    if (notice.kind === 'turn ended') options.onDecision?.({ kind: 'routing', result: notice.result });
    if (notice.kind === 'engine' && notice.event.kind === 'hold_dropped')
      options.log.note(`${notice.engineId}: ${droppedNote(notice.event.direction)}`);
    if (notice.kind === 'store') options.log.note(notice.message);
  });
  if (faults)
    faults.kill = async (place) => cluster.engines.find(({ name }) => name === place)?.lab.loseDevice();
  const end = async (graceMs: number) => {
    faults?.clear();
    stopScaling();
    engines?.close();
    await engines?.settled();
    for (const { observability } of observed) observability.close();
    await closePorts([...opened], graceMs);
    await revival.stop();
    await longTexts.close();
    await cluster.close();
  };
  try {
    ({ local } = await checkAccess(options));
    const ports = await EnginePorts.start(cluster, openEngine, options.ports, options.log);
    engines = ports;
    const { urls: ofEngines } = ports;
    const first = (role: EngineRole): string =>
      ofEngines[cluster.engines.find((engine) => engine.role === role)?.name ?? ''] ??
      Object.values(ofEngines)[0]!;
    const observability = observeRouter(router, () => cluster.members.staying);
    const { url: routerUrl } = await open(router, observability, options.ports.router);
    const urls = {
      prefill: first('prefill'),
      decode: first('decode'),
      router: routerUrl,
      admin: await openAdmin(),
    };
    if (options.autoscale)
      stopScaling = startAutoscaler(cluster, options.autoscale, {
        decided(decision, acts) {
          scalings.decided(decision, acts);
          observability.decided(decision);
          options.onDecision?.({ kind: 'scaling', decision });
        },
        failed: (message) => scalings.failed(message),
      });
    return { urls, engineUrls: ofEngines, modelName: served.names[0]!, stop: end };
  } catch (error) {
    await end(0);
    throw error;
  }
}

/** Rebuilds the app after renew(): a Hono app cannot get new routes once it has served a request. */
function adminPort(make: () => Hono) {
  let app: Hono | null = null;
  const fetch: Hono['fetch'] = (...args) => {
    app ??= make();
    return app.fetch(...args);
  };
  return {
    fetch,
    renew(): void {
      app = null;
    },
  };
}
