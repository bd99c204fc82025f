/**
 * Threads in Node: for engines, stores, and tokenising long texts. Engine threads can be started early, so that their
 * modules load while other work runs.
 */
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
  /** Resolves when the thread has loaded its addon, or has ended. */
  loaded: Promise<void>;
  /** Why the thread ended; null while it runs. */
  ended: string | null;
}

const ahead: Started[] = [];

/** Abandoned threads that have not ended, with what runs in them. */
const abandoned = new Map<Worker, string>();

/** 1 while a thread changes the environment for its driver (gpu.ts). */
const driverTurn = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);

/**
 * Starts engine threads that load their modules and wait. They do not keep the process alive and open no device until
 * used. If the system allows fewer threads, fewer are started: takeEngineThread then throws when it needs one.
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
 * Ends the threads that were not taken. Terminating a thread while it loads the addon would abort the process, so this
 * waits for loading to finish.
 */
export async function endThreadsAhead(): Promise<void> {
  const unused = ahead.splice(0);
  for (const { worker } of unused) worker.ref();
  await Promise.all(unused.map(({ worker, loaded }) => loaded.then(() => worker.terminate())));
}

/** Throws EngineDeadError if the system allows no more threads. */
export function takeEngineThread(): EngineThread {
  const started = ahead.shift() ?? start('engine-node', 'engine');
  started.worker.ref();
  return threadOf(started, 'engine');
}

/** A thread for a store. Throws EngineDeadError if the system allows no more threads. */
export const startStoreThread = (): EngineThread => threadOf(start('store-node', 'store'), 'store');

/** What runs in the abandoned threads that have not ended ('engine', 'store'). When a process ends, Node waits for them. */
export const hangingThreads = (): string[] => [...abandoned.values()];

function threadOf(started: Started, name: string): EngineThread {
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
      if (started.ended !== null) return;
      abandoned.set(worker, name);
      worker.once('exit', () => abandoned.delete(worker));
    },
  };
}

/** A thread with the model's tokeniser. It answers each text with its token ids, a Uint32Array, in order. */
export function startTextThread(model: string): Worker {
  return new Worker(bundled('text-node'), { name: 'text', workerData: { model } });
}

function start(entry: string, name: string): Started {
  const { port1, port2 } = new MessageChannel();
  // The shared environment lets the adapter be chosen after the thread has started.
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
    reason = whyEnded(error);
  });
  worker.once('exit', (code) => {
    started.ended = reason ?? (code === 0 ? 'it was closed' : `its thread ended with code ${code}`);
  });
  return started;
}

/** Node starts each thread by asking for the current directory. */
const whyEnded = ({ message }: Error): string =>
  message.includes('uv_cwd')
    ? 'the folder in which this program was started is gone, and Node starts no threads there: start it in another'
    : message;

/**
 * A thread inherits the process's flags. One of them, --input-type, is for a program that is not a file (node -e), and
 * a thread's entry point is one. Giving the remaining flags is refused if V8's are among them, so none are given then.
 */
const fromFile = (options: WorkerOptions): WorkerOptions =>
  process.execArgv.some((flag) => flag.startsWith('--input-type')) ? { ...options, execArgv: [] } : options;

function newWorker(entry: string, options: WorkerOptions): Worker {
  try {
    return new Worker(bundled(entry), fromFile(options));
  } catch (error) {
    // Node's permission model, and not the system.
    if ((error as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED')
      throw new EngineDeadError(
        'Node may start no threads here: give it --allow-worker, next to --permission',
        { cause: error },
      );
    throw new EngineDeadError(
      `the system starts no more threads for this program (${messageOf(error)}): raise the limit (ulimit -u, a container's pids), or start fewer engines`,
      { cause: error },
    );
  }
}
