/** Dawn in Node. The addon is loaded in the calling thread. */
import { workerData } from 'node:worker_threads';
import { AdapterError, messageOf } from '../../errors.ts';

/** Dawn's instance must outlive its devices, so it is kept as long as the thread. */
let instance: GPU | null = null;

/**
 * The number of threads lavapipe computes with. It reads the variable once, when an instance first requests an adapter.
 */
const THREADS = 'LP_NUM_THREADS';

/** Loads the addon early. It loads no driver until an adapter is requested. */
export async function loadAddon(): Promise<void> {
  // A failure recurs where the addon is needed, and is reported there.
  await import('webgpu').catch(() => {});
}

/**
 * driverThreads: whether lavapipe computes with its own threads; null: leave its setting unchanged. `meanwhile`: called
 * again and again while another thread loads the driver; false if there is nothing to do. Throws AdapterError if the addon
 * cannot be loaded.
 */
export async function createNodeGpu(
  driverThreads: boolean | null = null,
  meanwhile: () => Promise<boolean> = async () => false,
): Promise<GPU> {
  if (instance) return instance;
  const { create, globals } = await import('webgpu').catch((error) => {
    // Further lines name the modules that required it.
    const [reason = ''] = messageOf(error).split('\n');
    throw new AdapterError(`Dawn (npm's webgpu) cannot be loaded: ${reason.replace(/\.$/, '')}`, {
      cause: error,
    });
  });
  Object.assign(globalThis, globals);
  const adapter = process.env.KVFERRY_DAWN_ADAPTER;
  // For web security, Dawn rounds timestamps to about 0.1 ms. It also zeroes a buffer on first use, which would touch
  // every page of a KV pool of which few blocks are used. Both are disabled; code that needs zeros calls
  // GpuDevice.zero.
  const options = ['disable-dawn-features=timestamp_quantization,lazy_clear_resource_on_first_use'];
  const made = create(adapter ? [...options, `adapter=${adapter}`] : options);
  instance = made;
  if (driverThreads !== null) await inTurn(() => lookForAdapters(made, driverThreads), meanwhile);
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

/** All threads share one environment, so threads that may change it take turns. */
async function inTurn(action: () => Promise<void>, meanwhile: () => Promise<boolean>): Promise<void> {
  const { driverTurn = null } = (workerData ?? {}) as { driverTurn?: SharedArrayBuffer };
  const taken = driverTurn && new Int32Array(driverTurn);
  while (taken && Atomics.compareExchange(taken, 0, 0, 1) !== 0)
    if (!(await meanwhile())) await new Promise((resolve) => setTimeout(resolve, 1));
  try {
    await action();
  } finally {
    if (taken) Atomics.store(taken, 0, 0);
  }
}
