/** Threads in Node: engines', and one for long texts. Engines' may be started before they are asked for: their modules then load beside others. */
import { MessageChannel, type MessagePort as NodePort, SHARE_ENV, Worker } from 'node:worker_threads';
import type { EngineThread } from '../types.ts';
import { bundled } from './paths.ts';

interface Started {
  worker: Worker;
  port: NodePort;
  /** How it ended; null while it runs. */
  ended: string | null;
}

const ahead: Started[] = [];

/** 1 while a thread changes what its driver reads of the environment (gpu.ts). */
const driverTurn = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);

/** Threads that load their modules and wait. They keep no process alive, and touch no device before they are used. */
export function startThreadsAhead(count: number): void {
  for (let i = 0; i < count; i++) {
    const started = start();
    started.worker.unref();
    ahead.push(started);
  }
}

export function takeEngineThread(): EngineThread {
  const started = ahead.shift() ?? start();
  const { worker, port } = started;
  worker.ref();
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
  };
}

/** A thread with the model's tokenizer: answers each text with its ids, a Uint32Array, in order. */
export function startTextThread(model: string): Worker {
  return new Worker(bundled('text-node'), { name: 'text', workerData: { model } });
}

function start(): Started {
  const { port1, port2 } = new MessageChannel();
  // The adapter may be chosen later, by environment variables.
  const worker = new Worker(bundled('engine-node'), {
    name: 'engine',
    env: SHARE_ENV,
    workerData: { port: port2, driverTurn },
    transferList: [port2],
  });
  const started: Started = { worker, port: port1, ended: null };
  let reason: string | null = null;
  worker.once('error', (error) => {
    reason = error.message;
  });
  worker.once('exit', (code) => {
    started.ended = reason ?? (code === 0 ? 'it was closed' : `its thread ended with code ${code}`);
  });
  return started;
}
