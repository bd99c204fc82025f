/** The tables in src/gpu say what the shaders say. No GPU. */
import { describe, expect, it } from 'vitest';
import { type KernelName, kernels, shaderFiles, shaderText } from '../../src/gpu/kernels.ts';
import { packUniform, uniformLayouts } from '../../src/gpu/uniforms.ts';
import { readShader } from './adapter.ts';

const uniformOf = {
  embedding: 'embedding',
  rmsNorm: 'rmsNorm',
  gemm: 'gemm',
  gemmPortable: 'gemm',
  gemmTiled: 'gemm',
  gemmWide: 'gemm',
  ceilingMultiplyAdd: 'ceilingMultiplyAdd',
  ceilingRead: 'ceilingRead',
  ropeKvWrite: 'ropeKvWrite',
  attention: 'attention',
  attentionPortable: 'attention',
  attentionCombine: 'attentionCombine',
  swiglu: 'swiglu',
  sample: 'sample',
} as const;

function structFields(code: string, name: string): [string, string][] | null {
  const body = new RegExp(`struct ${name} \\{([^}]*)\\}`).exec(code)?.[1];
  if (body === undefined) return null;
  return [...body.matchAll(/(\w+): (\w+),/g)].map((match) => [match[1]!, match[2]!]);
}

describe.each(Object.keys(kernels) as KernelName[])('%s', (name) => {
  const { bindings } = kernels[name];

  it('has its bindings in the shader’s order', async () => {
    const code = await shaderText(name, readShader);
    const found = [...code.matchAll(/@group\(0\) @binding\((\d+)\) var<([^>]+)>/g)].map((match) => [
      Number(match[1]),
      match[2],
    ]);
    const kinds = { read: 'storage, read', write: 'storage, read_write', uniform: 'uniform' };
    expect(found).toEqual(bindings.map((binding, index) => [index, kinds[binding]]));
  });

  it('packs Params and Step as the shader declares them', async () => {
    const code = await shaderText(name, readShader);
    const layout = uniformLayouts[uniformOf[name]];
    expect(structFields(code, 'Params')).toEqual(Object.entries(layout));
    const step = structFields(code, 'Step');
    if (step) expect(step).toEqual(Object.entries(uniformLayouts.step));
  });

  it('names in its header the parts that follow it', async () => {
    const [shader, ...parts] = shaderFiles(name);
    const code = await readShader(shader!);
    const named = /^\/\/ Parts: (.*)\.$/m.exec(code)?.[1]?.split(', ') ?? [];
    expect(named.map((part) => `parts/${part}`)).toEqual(parts);
  });
});

it('packs each field into 4 bytes, padded to 16', () => {
  const packed = packUniform('rmsNorm', { hidden: 3, hidden4: 4, eps: 0.5 });
  expect(packed.byteLength).toBe(16);
  expect([...new Uint32Array(packed, 0, 2)]).toEqual([3, 4]);
  expect(new Float32Array(packed, 8, 1)[0]).toBe(0.5);
});
