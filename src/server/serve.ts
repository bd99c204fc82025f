/** Each engine and the router on ports of their own, and an operator's beside them, until stopped: listens, starts engines again when they end, and ends without leaving anyone waiting. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Worker } from 'node:worker_threads';
import { serve as listen } from '@hono/node-server';
import type { Hono } from 'hono';
import type { SamplingParams } from '../engine/types.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import { droppedNote } from '../fleet/dropped-note.ts';
import type { EngineRole } from '../router/engine-client.ts';
import { type AccessOptions, checkAccess } from './access.ts';
import { Admission } from './admission.ts';
import { createApp } from './app.ts';
import { ownNames } from './door.ts';
import { OneEngineService } from './engine-service.ts';
import { mountFleet } from './fleet-route.ts';
import { keepAlive } from './keep-alive.ts';
import type { ServerLog } from './log.ts';
import { type Observability, observeEngine, observeRouter } from './observability.ts';
import { adminApp, isOperator, mountOnClientPort, type Observed } from './operator.ts';
import { cannotListen, enginePorts, type Ports } from './ports.ts';
import { ClusterService } from './router-service.ts';
import type { PortService } from './service.ts';
import { TextThread } from './text-thread.ts';
import { textTools } from './text-tools.ts';

export interface ServerOptions extends AccessOptions {
  ports: Ports;
  /** Names that clients may give the model; none: its own. */
  servedModelNames: readonly string[];
  maxQueue: number;
  corsOrigins: readonly string[];
  /** Names that the ports are asked under, beside this machine's own; '*': any. */
  allowedHosts: readonly string[];
  streamingKvParams: boolean;
  /** What requests that say nothing are sampled with. */
  defaults: Partial<SamplingParams>;
  version: string;
  log: ServerLog;
}

export interface RunningServer {
  /** http://host:port; of P and D the first ones'. */
  readonly urls: Record<keyof Ports, string>;
  /** Of every engine, by its name. */
  readonly engineUrls: Readonly<Record<string, string>>;
  readonly modelName: string;
  /** Takes no more requests, gives those under way so long, then ends them, and the cluster. */
  stop(graceMs: number): Promise<void>;
}

/** The cluster belongs to the server from now on. Throws ConfigError; the cluster is closed then. */
export async function startServer(
  cluster: EngineCluster,
  options: ServerOptions,
  startTextThread: (model: string) => Worker,
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
  const engines = cluster.engines.map((_, seat) => new OneEngineService(cluster, seat, served, text, hosts));
  const router = new ClusterService(cluster, served, text);
  const created = Math.floor(Date.now() / 1000);
  const opened: OpenPort[] = [];
  const observed: Observed[] = [];
  let local = false;
  const open = async (service: PortService, observability: Observability, port: number): Promise<string> => {
    const { adminKey, adminOnClientPorts } = options;
    const rule = { adminKey, local };
    const seen = { service, observability };
    observed.push(seen);
    const mount = (app: Hono): void => {
      observability.mountMetrics(app, isOperator(rule));
      if (adminOnClientPorts) mountOnClientPort(app, seen, rule);
    };
    const admission = new Admission(service.maxNumSeqs, options.maxQueue);
    const { observer } = observability;
    const app = createApp(service, { ...options, observer, mount, created, admission, hosts });
    const server = await listenOn(app, options.host, port);
    opened.push({ server, admission });
    return urlOf(options.host, server);
  };
  const openAdmin = async (engineUrls: readonly string[]): Promise<string> => {
    const app = adminApp(observed, { ...options, hosts: namesOf(options.adminHost) });
    mountFleet(app, cluster, engineUrls);
    const server = await listenOn(app, options.adminHost, options.ports.admin);
    opened.push({ server, admission: null });
    return urlOf(options.adminHost, server);
  };
  const revival = keepAlive(cluster, options.log);
  cluster.onNotice((notice) => {
    if (notice.kind === 'engine' && notice.event.kind === 'hold_dropped')
      options.log.note(`${notice.engineId}: ${droppedNote(notice.event.direction)}`);
    if (notice.kind === 'store') options.log.note(notice.message);
  });
  const end = async (graceMs: number) => {
    for (const { observability } of observed) observability.close();
    await closePorts(opened, graceMs);
    await revival.stop();
    await longTexts.close();
    await cluster.close();
  };
  try {
    ({ local } = await checkAccess(options));
    const ports = enginePorts(
      cluster.engines.map(({ engineId: name, role }) => ({ name, role })),
      options.ports,
    );
    const opening: string[] = [];
    for (const [i, service] of engines.entries())
      opening.push(await open(service, observeEngine(service, cluster), ports[i]!));
    const first = (role: EngineRole): string =>
      opening[cluster.engines.findIndex((engine) => engine.role === role)] ?? opening[0]!;
    const urls = {
      prefill: first('prefill'),
      decode: first('decode'),
      router: await open(router, observeRouter(router), options.ports.router),
      admin: await openAdmin(opening),
    };
    const engineUrls = Object.fromEntries(engines.map(({ name }, i) => [name, opening[i]!]));
    return { urls, engineUrls, modelName: served.names[0]!, stop: end };
  } catch (error) {
    await end(0);
    throw error;
  }
}

interface OpenPort {
  server: Server;
  /** null: its requests are no client's, and nobody waits for them. */
  admission: Admission | null;
}

function urlOf(host: string, server: Server): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Node's 5 s would end connections that a busy client is just about to use again. */
const KEEP_ALIVE_MS = 75_000;

function listenOn(app: Hono, host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = listen({ fetch: app.fetch, hostname: host, port }) as Server;
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    server.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(host, port, error)));
    server.once('listening', () => resolve(server));
  });
}

/** How long ended requests have to tell their clients. */
const FAREWELL_MS = 1000;

async function closePorts(ports: readonly OpenPort[], graceMs: number): Promise<void> {
  for (const { server } of ports) {
    server.close();
    server.closeIdleConnections();
  }
  const idle = Promise.all(ports.map(({ admission }) => admission?.close()));
  if (!(await within(idle, graceMs))) {
    for (const { admission } of ports) admission?.abortAll();
    await within(idle, FAREWELL_MS);
  }
  // What was said last must leave before its connection does.
  await new Promise((resolve) => setTimeout(resolve, 20));
  for (const { server } of ports) server.closeAllConnections();
}

async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const done = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return done;
}
