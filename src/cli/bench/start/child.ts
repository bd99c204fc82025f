/** Runs `kvferry run` like main.ts, and reports when each stage was reached. Suppresses output. */
import { existsSync, readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { loadProgram } from '../../load-program.ts';

/** Times at which stages were reached, in milliseconds since the epoch. */
export interface StartTimes {
  /** Node has started. */
  booted: number;
  /** The command's modules are loaded. */
  loaded: number;
  adapter: number;
  /** Both engines are ready. */
  engines: number;
  firstToken: number;
  /** P and D in parallel, milliseconds: weights uploaded, pipelines created and first dispatched. */
  loadMs: number[];
  compileMs: number[];
  /** Processor time of the process at the first token. */
  residentBytes: number;
  processorMs: number;
  /** null if the system does not report it. */
  threads: number | null;
}

export type FromChild = { kind: 'times'; times: StartTimes } | { kind: 'failed'; why: string };

const args = process.argv.slice(2);
const { main, nodeDeps } = await loadProgram(args);
const { systemClock } = await import('../../../platform/clock.ts');

const times: StartTimes = {
  booted: performance.timeOrigin + performance.nodeTiming.bootstrapComplete,
  loaded: systemClock.now(),
  adapter: 0,
  engines: 0,
  firstToken: 0,
  loadMs: [],
  compileMs: [],
  residentBytes: 0,
  processorMs: 0,
  threads: null,
};
const TASKS = '/proc/self/task';

function noteFirstToken(): void {
  if (times.firstToken > 0) return;
  times.firstToken = systemClock.now();
  times.residentBytes = process.memoryUsage.rss();
  const { user, system } = process.cpuUsage();
  times.processorMs = (user + system) / 1000;
  times.threads = existsSync(TASKS) ? readdirSync(TASKS).length : null;
}

let said = '';
const deps = await nodeDeps();
const { backend } = deps;
const keep = {
  ...deps.stderr,
  write(text: string) {
    said += text;
  },
};

const code = await main(args, {
  ...deps,
  stdout: keep,
  stderr: keep,
  progressStream: null,
  backend: {
    ...backend,
    async useAdapter(choice) {
      const adapter = await backend.useAdapter(choice);
      times.adapter = systemClock.now();
      return adapter;
    },
    async startCluster(options) {
      const cluster = await backend.startCluster(options);
      times.engines = systemClock.now();
      times.loadMs = cluster.info.engines.map((engine) => engine.loadMs);
      times.compileMs = cluster.info.engines.map((engine) => engine.compileMs);
      const generate = cluster.generate.bind(cluster);
      cluster.generate = async function* (request) {
        for await (const token of generate(request)) {
          noteFirstToken();
          yield token;
        }
      };
      return cluster;
    },
  },
});
process.send!(code === 0 ? { kind: 'times', times } : { kind: 'failed', why: said });
process.disconnect();
