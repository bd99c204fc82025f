/** Negative controls of the checks: kernels that write nothing, and KV that lacks a block. */
import { describe, expect, it } from 'vitest';
import { type Kernel, type KernelName, kernels } from '../../../src/gpu/kernels.ts';
import type { KernelBench } from '../../../src/lab/verify/kernel-bench.ts';
import { kernelShapes, RandomNumbers } from '../../../src/lab/verify/kernel-cases.ts';
import { checksFor } from '../../../src/lab/verify/kernels.ts';
import { assemble, kvLayout } from '../../../src/lab/verify/kv-layout.ts';
import { oneGroup } from '../../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../../src/model/architecture/presets.ts';
import { adapterForm } from '../../../src/model/kernels/kernel-variants.ts';

const library = {
  kernel: (name: KernelName) => ({ name }),
  make: async (kernel: Kernel) => kernel,
  get: async (name: KernelName) => ({ name }),
};

function idle(forms: KernelBench['forms']): KernelBench {
  return {
    arithmetic: 'f32',
    library: library as unknown as KernelBench['library'],
    forms,
    run: async ({ name }, inputs) =>
      inputs
        .filter((_, i) => kernels[name].bindings[i] === 'write')
        .map(({ byteLength }) => new ArrayBuffer(16 * Math.ceil(byteLength / 16))),
  };
}

const nano = presetArchitecture('nano');
const ADAPTERS = {
  software: adapterForm({ subgroupSize: 4, software: true }),
  'a GPU': adapterForm({ subgroupSize: 32, software: false }),
};

describe.each(Object.entries(ADAPTERS))('kernel checks on %s', (_, form) => {
  const forms = [form, { ...form, subgroup: null }] as const;
  it.each(checksFor(forms))('fail every case of $name if the kernel writes nothing', async ({ measure }) => {
    const findings = [];
    for (const shape of kernelShapes(nano, 16))
      findings.push(...(await measure(idle(forms), shape, new RandomNumbers(1))));
    expect(findings.length).toBeGreaterThan(0);
    expect(findings.filter(({ error, bound }) => error <= bound)).toEqual([]);
  });
});

it('assemble() throws if a full group lacks blocks', () => {
  const layout = kvLayout(nano, 16, 'f16');
  const page = new Uint8Array(2 * layout.numKvHeads * layout.headDim * 16 * 2 * nano.numLayers);
  expect(assemble(layout, oneGroup(nano), [[page, page]], 32).blocks).toHaveLength(2);
  expect(() => assemble(layout, oneGroup(nano), [[page]], 32)).toThrow('1 blocks of 2 are there');
});
