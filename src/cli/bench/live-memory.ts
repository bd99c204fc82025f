/**
 * What a process's threads live on after a garbage collection. Preload it (`node --import`), so that engines' threads answer
 * too. A process with an IPC channel is asked by it: see askLiveMemory.
 */
import type { ChildProcess } from 'node:child_process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { BroadcastChannel, isMainThread } from 'node:worker_threads';
import { EngineDeadError } from '../../errors.ts';

const ASK = 'live memory?';
/** P and D. */
const ENGINES = 2;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes of this thread's heap, and of the memory outside that its objects keep. */
function ownBytes(): number {
  // What finalizers let go is found by the second.
  collectGarbage();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const threads = new BroadcastChannel('kvferry live memory');
threads.unref();
if (!isMainThread) {
  threads.onmessage = ({ data }: { data: unknown }) => {
    if (data === ASK) threads.postMessage(ownBytes());
  };
} else if (process.send) {
  process.on('message', (message) => {
    if (message === ASK) void liveMemory().then((bytes) => process.send!(bytes));
  });
  process.channel!.unref();
}

/** Bytes of all threads of this process; both engines must be alive. */
export async function liveMemory(): Promise<number> {
  threads.ref();
  const answers = new Promise<number>((resolve) => {
    let left = ENGINES;
    let sum = 0;
    threads.onmessage = ({ data }: { data: unknown }) => {
      sum += Number(data);
      if (--left === 0) resolve(sum);
    };
  });
  threads.postMessage(ASK);
  const engines = await answers;
  threads.unref();
  return engines + ownBytes();
}

/** The same of a process that was started with this file preloaded, and with an IPC channel. */
export async function askLiveMemory(child: ChildProcess): Promise<number> {
  child.send(ASK);
  return new Promise((resolve, reject) => {
    const gone = () => reject(new EngineDeadError('the process ended before it told its memory'));
    child.once('exit', gone);
    child.once('message', (bytes) => {
      child.off('exit', gone);
      resolve(Number(bytes));
    });
  });
}
