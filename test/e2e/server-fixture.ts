/** A complete server on free ports for tests: nano in worker threads, real sockets. */
import type { FaultBoard } from '../../src/faults/board.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { startTextThread } from '../../src/platform/node/threads.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import type { ServerLog } from '../../src/server/http/log.ts';
import { type RunningServer, type ServerOptions, startServer } from '../../src/server/serve.ts';
import { TEST_ADAPTER } from '../adapter.ts';
import { testOptions } from './cluster-fixture.ts';

export interface Served {
  cluster: EngineCluster;
  server: RunningServer;
  urls: RunningServer['urls'];
  /** Messages logged as errors. */
  errors: string[];
}

export async function withServer<T>(
  cluster: Partial<ClusterOptions>,
  server: Partial<ServerOptions>,
  use: (served: Served) => Promise<T>,
  faults: FaultBoard | null = null,
): Promise<T> {
  await useAdapter(TEST_ADAPTER);
  const errors: string[] = [];
  const log: ServerLog = {
    access: () => {},
    ended: () => {},
    note: () => {},
    error: (message) => void errors.push(message),
  };
  const started = { ...testOptions, ...cluster };
  const engines = await EngineCluster.start(nodePlatform, started, systemClock, faults ?? {});
  const options = {
    host: '127.0.0.1',
    adminHost: '127.0.0.1',
    ports: { prefill: [0], decode: [0], router: 0, admin: 0 },
    servedModelNames: [],
    maxQueue: 64,
    apiKey: null,
    adminKey: null,
    adminOnClientPorts: false,
    corsOrigins: [],
    allowedHosts: [],
    streamingKvParams: true,
    writeTimeoutMs: 60_000,
    faultEndpoint: false,
    defaults: {},
    version: 'test',
    log,
    ...server,
  };
  const running = await startServer(engines, options, startTextThread, faults);
  try {
    const result = await use({ cluster: engines, server: running, urls: running.urls, errors });
    if (engines.engines.every(({ dead }) => !dead)) await engines.checkIntegrity();
    return result;
  } finally {
    await running.stop(0);
  }
}

export function post(url: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  const headers = { 'Content-Type': 'application/json', ...init.headers };
  return fetch(url, { ...init, method: 'POST', headers, body: JSON.stringify(body) });
}

/** A metric's value, summed over its labels. */
export async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Blocks in use and requests held, over all engines. */
export async function inUse(cluster: EngineCluster): Promise<{ blocks: number; held: number }> {
  const stats = await cluster.stats();
  return {
    blocks: stats.reduce((sum, { usedBlocks }) => sum + usedBlocks, 0),
    held: stats.reduce((sum, { heldRequests }) => sum + heldRequests, 0),
  };
}
