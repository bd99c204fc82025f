/** P, D and the router on ports of their own, and an operator's beside them, until stopped: listens, starts engines again when they end, and ends without leaving anyone waiting. */
import type { Server } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import type { Worker } from 'node:worker_threads';
import { serve as listen } from '@hono/node-server';
import type { Hono } from 'hono';
import type { SamplingParams } from '../engine/types.ts';
import { ConfigError } from '../errors.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import { type AccessOptions, checkAccess } from './access.ts';
import { Admission } from './admission.ts';
import { createApp } from './app.ts';
import { OneEngineService } from './engine-service.ts';
import { keepAlive } from './keep-alive.ts';
import type { ServerLog } from './log.ts';
import { type Observability, observeEngine, observeRouter } from './observability.ts';
import { adminApp, isOperator, mountOnClientPort, type Observed } from './operator.ts';
import { ClusterService } from './router-service.ts';
import type { PortService } from './service.ts';
import { TextThread } from './text-thread.ts';
import { textTools } from './text-tools.ts';

export interface Ports {
  prefill: number;
  decode: number;
  router: number;
  /** The operator's. */
  admin: number;
}

export interface ServerOptions extends AccessOptions {
  /** 0: any free one. */
  ports: Ports;
  /** Names that clients may give the model; none: its own. */
  servedModelNames: readonly string[];
  maxQueue: number;
  corsOrigins: readonly string[];
  streamingKvParams: boolean;
  /** What requests that say nothing are sampled with. */
  defaults: Partial<SamplingParams>;
  version: string;
  log: ServerLog;
}

export interface RunningServer {
  /** http://host:port of each. */
  readonly urls: Record<keyof Ports, string>;
  readonly modelName: string;
  /** Takes no more requests, gives those under way so long, then ends them, and the cluster. */
  stop(graceMs: number): Promise<void>;
}

/** Throws ConfigError when a port cannot be listened on, or is reached by others without a key; nothing is left open then. */
export async function checkServer(
  options: Pick<ServerOptions, 'ports' | keyof AccessOptions>,
): Promise<void> {
  const { host, adminHost, ports } = options;
  await checkAccess(options);
  const wanted = Object.entries(ports).filter(([, port]) => port !== 0);
  for (const [name, port] of wanted) {
    const other = wanted.find(([another, same]) => another !== name && same === port);
    if (other) {
      throw new ConfigError(`port ${port} is given to both ${name} and ${other[0]}: give each its own`);
    }
    const on = name === 'admin' ? adminHost : host;
    await new Promise<void>((resolve, reject) => {
      const probe = createServer();
      probe.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(on, port, error)));
      probe.listen(port, on, () => probe.close(() => resolve()));
    });
  }
}

const REASONS: Record<string, string> = {
  EADDRINUSE: 'something else listens there; give another port, or end that program',
  EACCES: 'permission denied; give a port above 1023',
  EADDRNOTAVAIL: 'no interface of this machine has that address; give another --host',
  ENOTFOUND: 'there is no host of that name; give another --host',
};

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): ConfigError {
  return new ConfigError(`cannot listen on ${host}:${port}: ${REASONS[error.code ?? ''] ?? error.message}`, {
    cause: error,
  });
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
  const prefill = new OneEngineService(cluster, 'prefill', served, text);
  const decode = new OneEngineService(cluster, 'decode', served, text);
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
    const app = createApp(service, { ...options, observer, mount, created, admission });
    const server = await listenOn(app, options.host, port);
    opened.push({ server, admission });
    return urlOf(options.host, server);
  };
  const openAdmin = async (): Promise<string> => {
    const server = await listenOn(adminApp(observed, options), options.adminHost, options.ports.admin);
    opened.push({ server, admission: null });
    return urlOf(options.adminHost, server);
  };
  const revival = keepAlive(cluster, options.log);
  const end = async (graceMs: number) => {
    for (const { observability } of observed) observability.close();
    await closePorts(opened, graceMs);
    await revival.stop();
    await longTexts.close();
    await cluster.close();
  };
  try {
    ({ local } = await checkAccess(options));
    const urls = {
      prefill: await open(prefill, observeEngine(prefill, cluster), options.ports.prefill),
      decode: await open(decode, observeEngine(decode, cluster), options.ports.decode),
      router: await open(router, observeRouter(router), options.ports.router),
      admin: await openAdmin(),
    };
    return { urls, modelName: served.names[0]!, stop: end };
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
