/** Dawn in Node. The addon is loaded in the thread that calls. */
import { workerData } from 'node:worker_threads';

/** Dawn's instance must outlive its devices: kept for as long as the thread. */
let instance: GPU | null = null;

/** How many threads lavapipe computes with; it reads this when an instance first looks for adapters, and never again. */
const THREADS = 'LP_NUM_THREADS';

/** Loads the addon while there is time: it looks for no driver before an instance is asked for adapters. */
export async function loadAddon(): Promise<void> {
  // What fails, fails again for who needs it.
  await import('webgpu').catch(() => {});
}

/** driverThreads: whether lavapipe computes with threads of its own, where engines differ in that. */
export async function createNodeGpu(driverThreads: boolean | null = null): Promise<GPU> {
  if (instance) return instance;
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  const adapter = process.env.KVFERRY_DAWN_ADAPTER;
  // Dawn rounds timestamps to about 0.1 ms, for fear of web pages, and writes zeros over a buffer when it is first used: over
  // every page of a KV pool of which a few blocks are ever touched. Who needs zeros asks for them: GpuDevice.zero.
  const options = ['disable-dawn-features=timestamp_quantization,lazy_clear_resource_on_first_use'];
  const made = create(adapter ? [...options, `adapter=${adapter}`] : options);
  instance = made;
  if (driverThreads !== null) await inTurn(() => lookForAdapters(made, driverThreads));
  return instance;
}

async function lookForAdapters(gpu: GPU, driverThreads: boolean): Promise<void> {
  const before = process.env[THREADS];
  if (!driverThreads) process.env[THREADS] = '0';
  try {
    await gpu.requestAdapter();
  } finally {
    if (before === undefined) delete process.env[THREADS];
    else process.env[THREADS] = before;
  }
}

/** The environment is one for all threads: those that look while it may differ do so one after the other. */
async function inTurn(action: () => Promise<void>): Promise<void> {
  const { driverTurn = null } = (workerData ?? {}) as { driverTurn?: SharedArrayBuffer };
  const taken = driverTurn && new Int32Array(driverTurn);
  while (taken && Atomics.compareExchange(taken, 0, 0, 1) !== 0)
    await new Promise((resolve) => setTimeout(resolve, 1));
  try {
    await action();
  } finally {
    if (taken) Atomics.store(taken, 0, 0);
  }
}
