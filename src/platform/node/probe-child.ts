/** The probe's child process: selects one driver, asks Dawn for an adapter, and prints one line of JSON. */
import { messageOf } from '../../errors.ts';
import { adapterName, isSoftwareAdapter } from '../../gpu/adapter-name.ts';
import type { ProbedAdapter } from './drivers.ts';
import { type Driver, selectDriver } from './drivers.ts';
import { createNodeGpu } from './gpu.ts';

async function probe(driver: Driver): Promise<ProbedAdapter | null> {
  await selectDriver(driver);
  const gpu = await createNodeGpu();
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) return null;
  const { info, limits } = adapter;
  return {
    driver,
    vendor: info.vendor,
    architecture: info.architecture,
    name: adapterName(info),
    software: isSoftwareAdapter(info),
    features: [...adapter.features].sort(),
    subgroupMinSize: info.subgroupMinSize ?? null,
    subgroupMaxSize: info.subgroupMaxSize ?? null,
    maxBufferSize: limits.maxBufferSize,
    maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
  };
}

const [driver, name] = process.argv.slice(2);
if (name) process.env.KVFERRY_DAWN_ADAPTER = name;
let answer: { adapter: ProbedAdapter | null; error: string | null };
try {
  const adapter = await probe(driver as Driver);
  answer = { adapter, error: adapter ? null : 'Dawn accepts no adapter of this driver' };
} catch (error) {
  answer = { adapter: null, error: messageOf(error) };
}
process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
