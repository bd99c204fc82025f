/** The browser's platform: module workers, navigator.gpu, models as blobs. */
import { AdapterError, InternalError } from '../errors.ts';
import { blobSource, type ModelFiles } from './browser/blobs.ts';
import { isFirefox, WITH_WEBGPU } from './browser/browsers.ts';
import { polls } from './browser/polling.ts';
import { GOODBYE, type WorkerStart } from './browser/worker.ts';
import type { EngineThread, Platform } from './types.ts';

/** Only a script that was not loaded is reported without a message. */
export const SCRIPT_LOST = 'its script could not be loaded: reload the page';

/**
 * `models`: the files of every model that is not a preset, by name. The map is read when an engine starts, so fill it
 * before. `shaders`: WGSL by name, for threads that run engines; the page itself needs none. `onLost`: a thread's script
 * could not be loaded.
 */
export function browserPlatform(
  models: ReadonlyMap<string, ModelFiles>,
  shaders: ReadonlyMap<string, string> = new Map(),
  onLost: () => void = () => {},
): Platform {
  return {
    name: 'browser',
    backend: 'webgpu',

    async readShader(name) {
      const text = shaders.get(name);
      if (text === undefined) throw new InternalError(`there is no shader '${name}' in this thread`);
      return text;
    },

    async createGpu() {
      if (navigator.gpu) return navigator.gpu;
      throw new AdapterError(`this browser offers no WebGPU: use ${WITH_WEBGPU}`);
    },

    // A browser's GPU runs in its own process and reports completion.
    easePolling() {},
    polls: isFirefox(globalThis.navigator?.userAgent ?? '') ? polls : null,

    async openModel(name) {
      const files = models.get(name);
      return files ? blobSource(name, files) : null;
    },

    freeMemory: () => null,
    freeMappings: () => null,

    // Vite finds the worker's script by this exact expression. Keep `new Worker(new URL(...))` as written.
    async startEngineThread(name) {
      const worker = new Worker(new URL('../../workers/engine-browser.ts', import.meta.url), {
        type: 'module',
        name,
      });
      return threadOf(worker, { models }, onLost);
    },

    async startStoreThread() {
      const worker = new Worker(new URL('../../workers/store-browser.ts', import.meta.url), {
        type: 'module',
        name: 'store',
      });
      return threadOf(worker, {}, onLost);
    },
  };
}

/** `start`: fields of the worker's first message, in addition to its port. */
function threadOf(worker: Worker, start: Partial<WorkerStart>, onLost: () => void): EngineThread {
  const { port1, port2 } = new MessageChannel();
  worker.postMessage({ ...start, port: port2 }, [port2]);
  return {
    port: port1,
    onExit(listener) {
      let told = false;
      const end = (reason: string) => {
        if (told) return;
        told = true;
        port1.close();
        listener(reason);
      };
      // A Node thread ends on an uncaught error. A browser worker keeps running, with its device, until it is
      // terminated.
      const fail = (reason: string) => {
        worker.terminate();
        end(reason);
      };
      worker.addEventListener('error', ({ message }) => {
        if (!message) onLost();
        fail(message || SCRIPT_LOST);
      });
      worker.addEventListener('messageerror', () => fail('a message to it could not be read'));
      worker.addEventListener('message', (event) => {
        if (event.data === GOODBYE) end('it was closed');
      });
    },
    abandon() {
      port1.close();
      worker.terminate();
    },
  };
}
