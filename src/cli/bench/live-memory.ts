/**
 * Measures the live memory of a process's threads after a garbage collection. Threads must be started with
 * live-memory-preload.js (`node --import`) to answer.
 */
import type { ChildProcess } from 'node:child_process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { BroadcastChannel } from 'node:worker_threads';
import { EngineDeadError } from '../../errors.ts';

const ASK = 'live memory?';
/** Number of engines: P and D. */
const ENGINES = 2;
/** Most attempts. An engine that is being replaced does not answer; then all are asked again. */
const ROUND_MS = 2000;
const ROUNDS = 30;

/** A channel between threads. Answers carry the question's number, so that late ones do not count for the next question. */
interface Question {
  ask: number;
}
interface Reply {
  to: number;
  bytes: number;
}

const openChannel = (): BroadcastChannel => new BroadcastChannel('kvferry live memory');

/** Bytes of this thread's heap plus the external memory that its objects keep alive. */
function ownBytes(): number {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  // The second collection frees what finalisers released.
  collectGarbage();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Makes this thread answer the main one, with its own bytes. Does not keep the thread alive. */
export function answerMainThread(bytes = ownBytes): void {
  const channel = openChannel();
  channel.unref();
  channel.onmessage = ({ data }: { data: Question | Reply }) => {
    if ('ask' in data) channel.postMessage({ to: data.ask, bytes: bytes() } satisfies Reply);
  };
}

/** Makes this process answer its parent, if there is an IPC channel. */
export function answerParent(): void {
  if (!process.send) return;
  const send = process.send.bind(process);
  process.on('message', (message) => {
    if (message !== ASK) return;
    liveMemory().then(send, (error: Error) => send(error.message));
  });
  process.channel!.unref();
}

/** Bytes of all threads of this process. Throws EngineDeadError if no round finds both engines alive. */
export async function liveMemory(roundMs = ROUND_MS): Promise<number> {
  const channel = openChannel();
  try {
    for (let round = 1; round <= ROUNDS; round++) {
      const bytes = await askEngines(channel, round, roundMs);
      if (bytes !== null) return bytes + ownBytes();
    }
  } finally {
    channel.close();
  }
  throw new EngineDeadError(
    `fewer than ${ENGINES} engines reported their memory within ${(ROUNDS * roundMs) / 1000} s: one is dead`,
  );
}

/** null: not all threads answered in time. */
function askEngines(channel: BroadcastChannel, round: number, roundMs: number): Promise<number | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(null), roundMs);
    let left = ENGINES;
    let sum = 0;
    channel.onmessage = ({ data }: { data: Question | Reply }) => {
      if (!('to' in data) || data.to !== round) return;
      sum += data.bytes;
      if (--left > 0) return;
      clearTimeout(timer);
      resolve(sum);
    };
    channel.postMessage({ ask: round } satisfies Question);
  });
}

/** The same for a child process. */
export function askLiveMemory(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    const gone = () => reject(new EngineDeadError('the process ended before it reported its memory'));
    child.send(ASK, (error) => {
      if (error) gone();
    });
    child.once('exit', gone);
    child.once('message', (answer) => {
      child.off('exit', gone);
      if (typeof answer === 'number') resolve(answer);
      else reject(new EngineDeadError(String(answer)));
    });
  });
}
