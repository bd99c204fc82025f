/** Threads in Node: engines', and one for long texts. Engines' may be started before they are asked for: their modules then load beside others. */
import {
  MessageChannel,
  type MessagePort as NodePort,
  SHARE_ENV,
  Worker,
  type WorkerOptions,
} from 'node:worker_threads';
import { EngineDeadError, messageOf } from '../../errors.ts';
import type { EngineThread } from '../types.ts';
import { bundled } from './paths.ts';

interface Started {
  worker: Worker;
  port: NodePort;
  /** When its addon is there, or the thread is over. */
  loaded: Promise<void>;
  /** How it ended; null while it runs. */
  ended: string | null;
}

const ahead: Started[] = [];

/** 1 while a thread changes what its driver reads of the environment (gpu.ts). */
const driverTurn = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);

/**
 * Threads that load their modules and wait. They keep no process alive, and touch no device before they are used. Fewer where
 * the system has no room: whoever takes one that is not there is told.
 */
export function startThreadsAhead(count: number): void {
  try {
    for (let i = 0; i < count; i++) {
      const started = start('engine-node', 'engine');
      started.worker.unref();
      ahead.push(started);
    }
  } catch {}
}

/**
 * Ends those that nobody took. A thread that ends while it loads the addon ends the process by a fatal error of the native
 * side, so it may load to the end first.
 */
export async function endThreadsAhead(): Promise<void> {
  const unused = ahead.splice(0);
  for (const { worker } of unused) worker.ref();
  await Promise.all(unused.map(({ worker, loaded }) => loaded.then(() => worker.terminate())));
}

/** Throws EngineDeadError where the system has no room for a thread. */
export function takeEngineThread(): EngineThread {
  const started = ahead.shift() ?? start('engine-node', 'engine');
  started.worker.ref();
  return threadOf(started);
}

/** A thread for a store. Throws EngineDeadError where the system has no room for one. */
export const startStoreThread = (): EngineThread => threadOf(start('store-node', 'store'));

function threadOf(started: Started): EngineThread {
  const { worker, port } = started;
  return {
    port: port as unknown as MessagePort,
    onExit(listener) {
      const tell = () => {
        port.close();
        listener(started.ended!);
      };
      if (started.ended === null) worker.once('exit', tell);
      else tell();
    },
    abandon() {
      port.close();
      worker.unref();
    },
  };
}

/** A thread with the model's tokenizer: answers each text with its ids, a Uint32Array, in order. */
export function startTextThread(model: string): Worker {
  return new Worker(bundled('text-node'), { name: 'text', workerData: { model } });
}

function start(entry: string, name: string): Started {
  const { port1, port2 } = new MessageChannel();
  // The adapter may be chosen later, by environment variables.
  const worker = newWorker(entry, {
    name,
    env: SHARE_ENV,
    workerData: { port: port2, driverTurn },
    transferList: [port2],
  });
  const loaded = new Promise<void>((resolve) => {
    worker.once('message', () => resolve());
    worker.once('exit', () => resolve());
  });
  const started: Started = { worker, port: port1, loaded, ended: null };
  let reason: string | null = null;
  worker.once('error', (error) => {
    reason = error.message;
  });
  worker.once('exit', (code) => {
    started.ended = reason ?? (code === 0 ? 'it was closed' : `its thread ended with code ${code}`);
  });
  return started;
}

function newWorker(entry: string, options: WorkerOptions): Worker {
  try {
    return new Worker(bundled(entry), options);
  } catch (error) {
    throw new EngineDeadError(
      `the system starts no more threads for this program (${messageOf(error)}): raise what limits them (ulimit -u, a container's pids), or start fewer engines`,
      { cause: error },
    );
  }
}
