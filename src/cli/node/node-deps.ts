/** The commands' dependencies on Node: terminal, files, signals, and engines in worker threads. */
import { closeSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import pc from 'picocolors';
import { redisUrl, withoutPassword } from '../../config/store-url.ts';
import { ConfigError } from '../../errors.ts';
import { EngineCluster } from '../../fleet/cluster.ts';
import type { ClusterHooks } from '../../fleet/hooks.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { isPreset } from '../../model/architecture/presets.ts';
import { loadArchitecture, loadTokenizer, memorySource } from '../../model/load.ts';
import { presetTokenizerFiles } from '../../model/text/preset-tokenizer.ts';
import { systemClock } from '../../platform/clock.ts';
import { withProbes } from '../../platform/node/cached-probes.ts';
import type { ProbedAdapter } from '../../platform/node/drivers.ts';
import { importModule } from '../../platform/node/import-module.ts';
import { loadAverage, thisMachine } from '../../platform/node/machine.ts';
import { makeDirectory } from '../../platform/node/make-directory.ts';
import { packageRoot } from '../../platform/node/paths.ts';
import { directoryFolder } from '../../platform/node/store-folder.ts';
import { startTextThread } from '../../platform/node/threads.ts';
import { nodePlatform, useAdapter } from '../../platform/node.ts';
import type { Backend, CliDeps } from '../deps.ts';
import { nodeDoctor } from './node-doctor.ts';
import { processOutputs } from './node-output.ts';
import { startSimulationThread } from './node-simulation.ts';
import { createTextFile, writeTextFile } from './output-files.ts';
import { checkWritable, piecesOf, refuse, textOf } from './user-files.ts';

export async function nodeDeps(): Promise<CliDeps> {
  const { version } = JSON.parse(await readFile(path.join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  const { stdout, stderr, onLost } = processOutputs();
  let endedBy: NodeJS.Signals = 'SIGINT';
  return {
    version,
    stdout,
    stderr,
    progressStream: process.stderr.isTTY ? process.stderr : null,
    color: pc.isColorSupported && process.stdout.isTTY === true,
    readTextFile: textOf,
    importModule,
    readTextPieces: piecesOf,
    async plainFileId(file) {
      const found = await stat(file, { bigint: true }).catch(() => null);
      return found?.isFile() ? `${found.dev}:${found.ino}` : null;
    },
    writeTextFile,
    checkWritable,
    createTextFile,
    makeDirectory: async (directory) => {
      await makeDirectory(path.resolve(directory)).catch((error) =>
        refuse('create the directory', directory, error),
      );
    },
    storeFolder: directoryFolder,
    // The Redis client is loaded on demand.
    storeServer: async (url) => {
      const { redisServer } = await import('../../platform/node/redis.ts');
      return redisServer(redisUrl(url), withoutPassword(url));
    },
    now: () => performance.now(),
    sleep: (ms, signal) => systemClock.sleep(ms, signal),
    nextTask: () => setImmediate(),
    today: () => new Date().toISOString(),
    machine: thisMachine,
    loadAverage,
    environment: (name) => process.env[name] ?? null,
    onInterrupt(listener) {
      const hear = (signal: NodeJS.Signals): void => {
        endedBy = signal;
        listener();
      };
      process.on('SIGINT', hear);
      process.on('SIGTERM', hear);
      return () => {
        process.off('SIGINT', hear);
        process.off('SIGTERM', hear);
      };
    },
    onOutputLost: onLost,
    // process.exit() would stop the engines' threads first, and one that is creating its device's resources then aborts the
    // process. A shell reports SIGINT as exit code 130, SIGTERM as 143.
    exitNow() {
      // A bar may have hidden the cursor and turned line wrapping off.
      if (process.stderr.isTTY) process.stderr.write('\x1b[?25h\x1b[?7h\n');
      process.removeAllListeners(endedBy);
      process.kill(process.pid, endedBy);
      if (process.pid === 1) endFirstProcess(endedBy === 'SIGTERM' ? 143 : 130);
    },
    backend,
    servers: {
      async check(server, engines) {
        const { checkServer } = await import('../../server/http/ports.ts');
        await checkServer(server, engines);
      },
      async start(options, server, prepare) {
        const { startServer } = await import('../../server/serve.ts');
        const faults = server.faultEndpoint ? await faultBoard() : null;
        const cluster = await startCluster(options, faults ?? {});
        try {
          await prepare(cluster);
        } catch (error) {
          await cluster.close();
          throw error;
        }
        return startServer(cluster, server, startTextThread, faults);
      },
    },
    startSimulationThread,
    doctor: nodeDoctor,
    verify: {
      // Loaded on demand.
      kernels: async (environment) =>
        (await import('../../lab/verify/kernels.ts')).kernelChecks(nodePlatform)(environment),
      pulledBlocks: async (environment) =>
        (await import('../../lab/verify/pulled-blocks.ts')).pulledBlockChecks(nodePlatform)(environment),
      fixture: async (environment) =>
        (await import('../../lab/verify/fixture.ts')).fixtureChecks(nodePlatform)(environment),
    },
  };
}

/** For a container's first process, which the kernel spares from its own signals. */
function endFirstProcess(code: number): void {
  const { execPath, execve } = process as typeof process & {
    execve?: (file: string, args: readonly string[], env: object) => void;
  };
  try {
    // Since Node 22.15. A program takes this one's place, and its threads end.
    execve?.(execPath, [execPath, '-e', `process.exit(${code})`], {});
  } catch {}
  // Else abort() prints native stacks.
  closeSync(2);
  process.abort();
}

async function faultBoard() {
  const { FaultBoard } = await import('../../faults/board.ts');
  return new FaultBoard(systemClock);
}

/** Adds autotuning results to the options. The variants for software adapters are known, so 'auto' skips those. */
async function tuned(options: ClusterOptions, adapter: ProbedAdapter): Promise<ClusterOptions> {
  const { autotune = 'off' } = options;
  if (autotune === 'off' || (autotune === 'auto' && adapter.software)) return options;
  const { tuning } = await import('./node-tuning.ts');
  return { ...options, ...(await tuning(options, adapter, autotune === 'again')) };
}

/** Call useAdapter first. */
async function startCluster(options: ClusterOptions, hooks: ClusterHooks = {}): Promise<EngineCluster> {
  const adapter = await useAdapter('auto');
  return withProbes(async () =>
    EngineCluster.start(nodePlatform, await tuned(options, adapter), systemClock, hooks),
  );
}

const backend: Backend = {
  architecture: async (model) => loadArchitecture(model, await nodePlatform.openModel(model)),
  useAdapter: async (choice) => {
    const { name, software } = await useAdapter(choice);
    return { name, software };
  },
  startCluster,
  async tokenizer(model) {
    const { tokenizer, architecture } = await loadTokenizer(model, await nodePlatform.openModel(model));
    return {
      size: architecture.vocabSize,
      encode: (text) => tokenizer.encode(text),
      decode: (ids) => tokenizer.decode(ids),
    };
  },
  async tokenizerFiles(model) {
    if (isPreset(model)) return presetTokenizerFiles(model);
    const files = (await nodePlatform.openModel(model)) ?? memorySource(model, {});
    const found: Record<string, string> = {};
    for (const name of TOKENIZER_FILES) {
      const content = await files.readText(name);
      if (content !== null) found[name] = content;
    }
    if (found['tokenizer.json'] === undefined) {
      throw new ConfigError(
        `${files.location} has no tokenizer.json: wanted a preset, or a directory that has one`,
      );
    }
    return found;
  },
};

const TOKENIZER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'config.json',
  'chat_template.jinja',
];
