/**
 * What a process's threads live on after a garbage collection. Each thread must have been started with
 * live-memory-preload.js (`node --import`), so that it answers.
 */
import type { ChildProcess } from 'node:child_process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { BroadcastChannel } from 'node:worker_threads';
import { EngineDeadError } from '../../errors.ts';

const ASK = 'live memory?';
/** P and D. */
const ENGINES = 2;

const openChannel = (): BroadcastChannel => new BroadcastChannel('kvferry live memory');

/** Bytes of this thread's heap, and of the memory outside that its objects keep. */
function ownBytes(): number {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  // What finalizers let go is found by the second.
  collectGarbage();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** From now on this thread answers the main one, for as long as it lives for other reasons. */
export function answerMainThread(): void {
  const channel = openChannel();
  channel.unref();
  channel.onmessage = ({ data }: { data: unknown }) => {
    if (data === ASK) channel.postMessage(ownBytes());
  };
}

/** From now on this process answers the one that started it, if that gave it an IPC channel. */
export function answerParent(): void {
  if (!process.send) return;
  process.on('message', (message) => {
    if (message === ASK) void liveMemory().then((bytes) => process.send!(bytes));
  });
  process.channel!.unref();
}

/** Bytes of all threads of this process; both engines must be alive. */
export async function liveMemory(): Promise<number> {
  const channel = openChannel();
  const engines = new Promise<number>((resolve) => {
    let left = ENGINES;
    let sum = 0;
    channel.onmessage = ({ data }: { data: unknown }) => {
      sum += Number(data);
      if (--left === 0) resolve(sum);
    };
  });
  channel.postMessage(ASK);
  const bytes = await engines;
  channel.close();
  return bytes + ownBytes();
}

/** The same of a process that answers this one. */
export function askLiveMemory(child: ChildProcess): Promise<number> {
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
