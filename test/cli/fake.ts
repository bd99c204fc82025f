/** Dependencies of the commands without a terminal, files, a GPU or threads. */
import { normalize } from 'node:path';
import { type CliDeps, EXIT } from '../../src/cli/deps.ts';
import { widthOf } from '../../src/cli/output/format.ts';
import { withoutPassword } from '../../src/config/store-url.ts';
import { ConfigError } from '../../src/errors.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { importModule } from '../../src/platform/node/import-module.ts';
import { redisServer } from '../../src/platform/node/redis.ts';
import { directoryFolder } from '../../src/platform/node/store-folder.ts';
import type { ServerOptions } from '../../src/server/serve.ts';
import { FakeCluster, type FakeTroubles } from './fake-cluster.ts';

export interface FakeWorld {
  deps: CliDeps;
  out(): string;
  err(): string;
  files: Map<string, string>;
  directories: string[];
  clusters: FakeCluster[];
  /** Presses Ctrl-C. */
  interrupt(): void;
  /** Presses Ctrl-C when `text` is written to either stream. */
  interruptAt(text: string): void;
  /** Closes the pipe that the output goes to. */
  unread(): void;
  exits: number[];
  /** What servers were started with; `stopped` has the grace period of each stop in ms. */
  served: { options: ClusterOptions; server: ServerOptions }[];
  stopped: number[];
}

export function fakeWorld(troubles: FakeTroubles = {}, files: Record<string, string> = {}): FakeWorld {
  const written = { out: '', err: '' };
  const store = new Map(Object.entries(files));
  const listeners = new Set<() => void>();
  const readers = new Set<() => void>();
  const clusters: FakeCluster[] = [];
  const directories: string[] = [];
  const exits: number[] = [];
  const served: { options: ClusterOptions; server: ServerOptions }[] = [];
  const stopped: number[] = [];
  let time = 0;
  const output = (to: 'out' | 'err') => ({
    write: (text: string) => {
      written[to] += text;
    },
    isTTY: false,
    columns: 80,
  });
  const deps: CliDeps = {
    version: '1.2.3',
    stdout: output('out'),
    stderr: output('err'),
    progressStream: null,
    color: false,
    async readTextFile(path) {
      const content = store.get(path);
      if (content === undefined) throw new ConfigError(`cannot read ${path}: there is no such file`);
      return content;
    },
    importModule,
    async *readTextPieces(path) {
      const content = store.get(path);
      if (content === undefined) throw new ConfigError(`cannot read ${path}: there is no such file`);
      for (let at = 0; at < content.length; at += 100) yield content.slice(at, at + 100);
    },
    plainFileId: async (path) => (store.has(path) || store.has(normalize(path)) ? normalize(path) : null),
    async checkWritable(path) {
      if (path.startsWith('/read-only/'))
        throw new ConfigError(`cannot write ${path}: it is read-only; give another path`);
    },
    async writeTextFile(path, content) {
      store.set(path, content);
    },
    async createTextFile(path) {
      const parts: string[] = [];
      return {
        write: (text) => void parts.push(text),
        async drained() {},
        close: async () => void store.set(path, parts.join('')),
        async discard() {},
      };
    },
    storeFolder: directoryFolder,
    storeServer: async (url) => redisServer(url, withoutPassword(url)),
    async makeDirectory(path) {
      directories.push(path);
    },
    now: () => time++,
    environment: () => null,
    sleep: async () => {},
    nextTask: async () => {},
    today: () => '2026-01-02T03:04:05.678Z',
    loadAverage: () => 0.5,
    machine: () => ({
      cpu: 'Abacus 3000',
      cores: 2,
      memory_bytes: 8 * 2 ** 30,
      os: 'Linux 6.1 x64',
      node: 'v20.20.0',
    }),
    onInterrupt(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    onOutputLost(listener) {
      readers.add(listener);
      return () => readers.delete(listener);
    },
    exitNow: () => void exits.push(EXIT.interrupted),
    servers: {
      async check() {},
      async start(options, server, prepare) {
        const cluster = new FakeCluster(options, troubles);
        clusters.push(cluster);
        await prepare(cluster);
        served.push({ options, server });
        const urls = {
          prefill: 'http://h:1',
          decode: 'http://h:2',
          router: 'http://h:3',
          admin: 'http://h:4',
        };
        return {
          urls,
          engineUrls: { 'prefill-0': urls.prefill, 'decode-0': urls.decode },
          modelName: server.servedModelNames[0] ?? options.model,
          async stop(graceMs) {
            stopped.push(graceMs);
          },
        };
      },
    },
    backend: {
      architecture: async (model) => ({
        ...presetArchitecture(model === 'recall' ? 'nano' : model),
        name: model,
      }),
      async useAdapter(choice) {
        if (troubles.adapterFails) throw troubles.adapterFails;
        return { name: `fake (${choice})`, software: true };
      },
      async startCluster(options) {
        if (troubles.startFails) throw troubles.startFails;
        const cluster = new FakeCluster(options, troubles);
        clusters.push(cluster);
        return cluster;
      },
      tokenizer: async () => ({
        size: 512,
        encode: (text) => [...text].map((character) => (character.codePointAt(0)! % 500) + 8),
        decode: (ids) => ids.map((id) => String.fromCharCode(0x100 + id)).join(''),
      }),
      tokenizerFiles: async (model) => ({
        'tokenizer.json': `{"model":"${model}"}`,
        'tokenizer_config.json': '{}',
      }),
    },
    startSimulationThread: () => {
      throw new Error('no thread is started here');
    },
    doctor: {
      adapters: async () => [
        { driver: 'system', adapter: null, error: 'not installed' },
        {
          driver: 'swiftshader',
          adapter: {
            name: 'SwiftShader Device (Subzero)',
            software: true,
            features: ['subgroups'],
            maxBufferSize: 2 ** 30,
            maxStorageBufferBindingSize: 2 ** 30,
            subgroupMinSize: 4,
            subgroupMaxSize: 4,
          },
          error: null,
        },
      ],
      backend: 'vulkan',
      nvidia: () => false,
      copyRates: async () => [
        { direction: 'P→shared→D', bytes: 4e6, gbps: 1.25, byHandGbps: 0.9 },
        { direction: 'D→shared→P', bytes: 4e6, gbps: 1.5, byHandGbps: null },
      ],
    },
    verify: { kernels: async () => [], pulledBlocks: async () => [], fixture: async () => [] },
  };
  const interrupt = (): void => {
    for (const listener of [...listeners]) listener();
  };
  return {
    deps,
    out: () => written.out,
    err: () => written.err,
    files: store,
    directories,
    clusters,
    interrupt,
    interruptAt: (awaited) => {
      for (const stream of [deps.stdout, deps.stderr]) {
        const { write } = stream;
        stream.write = (text) => {
          write(text);
          if (text.includes(awaited)) interrupt();
        };
      }
    },
    unread: () => {
      for (const listener of [...readers]) listener();
    },
    exits,
    served,
    stopped,
  };
}

/** Columns of the widest line. */
export const widest = (text: string): number => Math.max(...text.split('\n').map(widthOf));
