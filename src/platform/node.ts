/** The Node half of the platform: Dawn, worker_threads and the file system. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { adapterInUse } from './node/adapters.ts';
import { directorySource } from './node/files.ts';
import { createNodeGpu } from './node/gpu.ts';
import { freeMemory } from './node/machine.ts';
import { packageRoot } from './node/paths.ts';
import { easePolling } from './node/polling.ts';
import type { EngineThread, Platform } from './types.ts';

export { useAdapter } from './node/adapters.ts';

export const nodePlatform: Platform = {
  name: 'node',

  // Dawn's first choice on each.
  backend: { darwin: 'metal', win32: 'd3d12' }[process.platform as string] ?? 'vulkan',

  readShader: (name) => readFile(path.join(packageRoot, 'shaders', `${name}.wgsl`), 'utf8'),

  createGpu: createNodeGpu,

  easePolling,

  async openModel(nameOrLocation) {
    const shipped = path.join(packageRoot, 'models', nameOrLocation);
    if (/^[\w.-]+$/.test(nameOrLocation) && existsSync(shipped)) return directorySource(shipped);
    return existsSync(nameOrLocation) ? directorySource(path.resolve(nameOrLocation)) : null;
  },

  freeMemory: () => (adapterInUse()?.software ? freeMemory() : null),

  async startEngineThread(name): Promise<EngineThread> {
    // Workers run compiled code: Node 20 does not start TypeScript.
    const entry = path.join(packageRoot, 'dist', 'workers', 'engine-node.js');
    const { port1, port2 } = new MessageChannel();
    const worker = new Worker(entry, {
      name,
      workerData: { port: port2 },
      transferList: [port2 as unknown as import('node:worker_threads').MessagePort],
    });
    return {
      port: port1,
      onExit(listener) {
        let reason: string | null = null;
        worker.once('error', (error) => {
          reason = error.message;
        });
        worker.once('exit', (code) => {
          port1.close();
          listener(reason ?? (code === 0 ? 'it was closed' : `its thread ended with code ${code}`));
        });
      },
    };
  },
};
