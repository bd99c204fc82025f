/** The platform for Node: Dawn, worker_threads and the file system. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { adapterInUse } from './node/adapters.ts';
import { directorySource } from './node/files.ts';
import { createNodeGpu } from './node/gpu.ts';
import { freeMappings, freeMemory } from './node/machine.ts';
import { packageRoot } from './node/paths.ts';
import { easePolling } from './node/polling.ts';
import { startStoreThread, takeEngineThread } from './node/threads.ts';
import type { Platform } from './types.ts';

export { useAdapter } from './node/adapters.ts';

export const nodePlatform: Platform = {
  name: 'node',

  // Dawn's preferred backend on each system.
  backend: { darwin: 'metal', win32: 'd3d12' }[process.platform as string] ?? 'vulkan',

  readShader: (name) => readFile(path.join(packageRoot, 'shaders', `${name}.wgsl`), 'utf8'),

  createGpu: createNodeGpu,

  easePolling,
  polls: null,

  async openModel(nameOrLocation) {
    const shipped = path.join(packageRoot, 'models', nameOrLocation);
    // '.' and '..' are paths of the user, not shipped models.
    if (/^\w[\w.-]*$/.test(nameOrLocation) && existsSync(shipped)) return directorySource(shipped);
    return existsSync(nameOrLocation) ? directorySource(path.resolve(nameOrLocation)) : null;
  },

  freeMemory: () => (adapterInUse()?.software ? freeMemory() : null),
  freeMappings: () => (adapterInUse()?.software ? freeMappings() : null),

  startEngineThread: async () => takeEngineThread(),

  startStoreThread: async () => startStoreThread(),
};
