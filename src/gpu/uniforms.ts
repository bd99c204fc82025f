/**
 * Uniform blocks, described in one table: the fields of each kernel's Params, in the shader's order. Every field is a
 * 32-bit scalar, so a field's offset is four times its index. A test compares the table with the structs in shaders/.
 */
import { roundUp } from './buffer-size.ts';

type Field = 'u32' | 'f32';

export const uniformLayouts = {
  step: { rows: 'u32', logit_rows: 'u32' },
  embedding: { hidden4: 'u32', vocab4: 'u32', first: 'u32', scale: 'f32', panel: 'u32' },
  rmsNorm: { hidden: 'u32', hidden4: 'u32', eps: 'f32' },
  gemm: {
    inputs4: 'u32',
    columns4: 'u32',
    use_bias: 'u32',
    add: 'u32',
    count: 'u32',
    stride4: 'u32',
    first4: 'u32',
    panel4: 'u32',
    inputs: 'u32',
    eps: 'f32',
  },
  ropeKvWrite: { heads: 'u32', kv_heads: 'u32', layer: 'u32', layers: 'u32', scale: 'f32', eps: 'f32' },
  attention: {
    layer: 'u32',
    layers: 'u32',
    kv_heads: 'u32',
    group: 'u32',
    dims4: 'u32',
    lanes: 'u32',
    window: 'u32',
  },
  attentionCombine: { heads: 'u32', dims4: 'u32', window: 'u32' },
  swiglu: { width: 'u32', width4: 'u32', stride4: 'u32' },
  sample: { vocab: 'u32', stride: 'u32' },
  ceilingMultiplyAdd: { turns: 'u32' },
  ceilingRead: { count: 'u32', stride: 'u32', offset: 'u32' },
} as const satisfies Record<string, Record<string, Field>>;

export type UniformName = keyof typeof uniformLayouts;

export type UniformValues<N extends UniformName> = Record<keyof (typeof uniformLayouts)[N], number>;

/** The bytes of one uniform block, padded to a multiple of 16 as WGSL requires. */
export function packUniform<N extends UniformName>(name: N, values: UniformValues<N>): ArrayBuffer {
  const fields = Object.entries(uniformLayouts[name]) as [keyof typeof values, Field][];
  const view = new DataView(new ArrayBuffer(roundUp(4 * fields.length, 16)));
  fields.forEach(([field, type], i) => {
    if (type === 'u32') view.setUint32(4 * i, values[field], true);
    else view.setFloat32(4 * i, values[field], true);
  });
  return view.buffer as ArrayBuffer;
}

/** Creates a buffer with one uniform block. It can be rewritten. */
export function uniformBuffer<N extends UniformName>(
  device: GPUDevice,
  name: N,
  values: UniformValues<N>,
): GPUBuffer {
  const data = packUniform(name, values);
  const buffer = device.createBuffer({
    label: `${name} params`,
    size: data.byteLength,
    usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
  });
  device.queue.writeBuffer(buffer, 0, data);
  return buffer;
}
