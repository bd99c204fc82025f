/** Which kernels compute a piece while an engine has only some of them. Needs no device. */
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { isCompiled, KernelLibrary } from '../../src/gpu/kernels.ts';
import type { GpuKvMemory } from '../../src/gpu/kv-memory.ts';
import { oneGroup } from '../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { choiceOf, gemmCandidates } from '../../src/model/kernels/gemm-forms.ts';
import { adapterForm } from '../../src/model/kernels/kernel-variants.ts';
import { createPassKernels, kernelsOf } from '../../src/model/kernels/pass-kernels.ts';
import type { Activations } from '../../src/model/pass/activations.ts';
import { createForwardPass } from '../../src/model/pass/forward-pass.ts';
import { cutIntoPieces } from '../../src/model/pass/step-inputs.ts';
import { type Architecture, pad4 } from '../../src/model/types.ts';
import type { DeviceMatrix, DeviceWeights } from '../../src/model/weights/device-weights.ts';
import { type MatrixName, matricesOf } from '../../src/model/weights/matrices.ts';
import { request, tokens } from './runner-harness.ts';

vi.stubGlobal('GPUBufferUsage', {});
vi.stubGlobal('GPUShaderStage', {});

const buffer = {} as GPUBuffer;
const gpu = {
  device: {
    createBuffer: () => buffer,
    createBindGroup: () => ({}),
    createBindGroupLayout: () => ({}),
    queue: { writeBuffer() {} },
  },
} as unknown as GpuDevice;
const kv = { buffer, placeOfLayer: (layer: number) => ({ layer, layers: 1 }) } as unknown as GpuKvMemory;
const activations = {
  tokens: [buffer],
  tables: [buffer],
  turns: { full: buffer, sliding: buffer },
} as unknown as Activations;

function deviceWeights(architecture: Architecture): DeviceWeights {
  const matrix = (name: MatrixName): DeviceMatrix => {
    const { inputs, outputs } = matricesOf(architecture)[name];
    return { buffer, inputs4: pad4(inputs) / 4, columns4: pad4(outputs) / 4, bias: null };
  };
  const head = [{ ...matrix('lm head'), first: 0 }];
  const layer = {
    ...{ inputNorm: buffer, headNorms: null, attentionOutNorm: null, mlpNorm: buffer, mlpOutNorm: null },
    ...{ qkv: matrix('qkv'), o: matrix('o'), gateUp: matrix('gate up'), down: matrix('down') },
  };
  return {
    ...{ embedding: head, lmHead: head, finalNorm: buffer, bytes: 0, destroy() {} },
    layers: Array.from({ length: architecture.numLayers }, () => layer),
  };
}

const adapters = [
  adapterForm({ subgroupSize: 32, software: false }),
  adapterForm({ subgroupSize: null, software: false }),
  adapterForm({ subgroupSize: 8, software: true }),
  adapterForm({ subgroupSize: null, software: true }),
];

it('each set of kernels computes pieces of any number of rows, for models of any size', () => {
  const draw = fc.record({
    form: fc.constantFrom(...adapters),
    set: fc.constantFrom('all', 'prompts', 'one row'),
    weightsF32: fc.boolean(),
    fuse: fc.boolean(),
    /** Stands for what an autotune chose; null: not tuned. */
    tuned: fc.option(fc.nat({ max: 11 })),
    hiddenSize: fc.integer({ min: 1, max: 70 }),
    intermediateSize: fc.integer({ min: 1, max: 70 }),
    vocabSize: fc.integer({ min: 2, max: 70 }),
    headDim: fc.constantFrom(4, 16, 20, 32),
    numKvHeads: fc.integer({ min: 1, max: 3 }),
    rows: fc.constantFrom(1, 2, 4, 5, 16, 17, 100),
  });
  fc.assert(
    fc.property(draw, ({ form, set, weightsF32, fuse, tuned, rows, ...shape }) => {
      const architecture = { ...presetArchitecture('nano'), ...shape, numHeads: 3 * shape.numKvHeads };
      const library = new KernelLibrary(gpu, () => Promise.reject(new Error('nothing is made')));
      const limits = { blockSize: 16, maxModelLen: 512 };
      const forms = gemmCandidates(form);
      const gemm = tuned === null ? null : choiceOf((of) => forms[of][tuned % forms[of].length]!);
      const kernels = createPassKernels(library, form, {
        ...{ architecture, ...limits, weightsF32, kvF32: false, gemm, fuse },
      });
      const { own, shared } = kernelsOf(set, kernels);
      for (const kernel of [...own, ...shared]) kernel.pipeline = {} as GPUComputePipeline;
      const parts = { gpu, library, form, architecture, kernels, activations, kv };
      const pass = createForwardPass({
        ...{ ...parts, weights: deviceWeights(architecture), groups: oneGroup(architecture), want() {} },
      });
      const ids = tokens(rows, architecture.vocabSize);
      const requests = [request('a', ids, 0, rows, [1, 2, 3, 4, 5, 6, 7])];
      const step = { ...limits, numBlocks: 8, vocabSize: architecture.vocabSize };
      const most = { rows: 1024, attendedKeys: 1e9, logitRows: 64 };
      const [piece] = cutIntoPieces({ step: 0, requests }, step, most);
      for (const { kernel, x, y, label } of pass.dispatches(piece!)) {
        expect(isCompiled(kernel), label).toBe(true);
        expect(x * y, label).toBeGreaterThan(0);
      }
    }),
  );
});
