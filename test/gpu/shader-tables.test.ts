/** The tables in src/gpu agree with the shaders. Needs no GPU. */
import { describe, expect, it } from 'vitest';
import { type KernelName, kernels, shaderFiles, shaderText } from '../../src/gpu/kernels.ts';
import { packUniform, uniformLayouts } from '../../src/gpu/uniforms.ts';
import { readShader } from './adapter.ts';

const uniformOf = {
  embedding: 'embedding',
  rmsNorm: 'rmsNorm',
  gemm: 'gemm',
  gemmPortable: 'gemm',
  gemmPortableGated: 'gemm',
  gemmPortableQkv: 'gemm',
  gemmBlocked: 'gemm',
  gemmSplit: 'gemm',
  gemmSplitGated: 'gemm',
  gemmSplitQkv: 'gemm',
  gemmTiled: 'gemm',
  gemmWide: 'gemm',
  gemmWideGated: 'gemm',
  gemmWideQkv: 'gemm',
  ceilingMultiplyAdd: 'ceilingMultiplyAdd',
  ceilingRead: 'ceilingRead',
  ropeKvWrite: null,
  attention: 'attention',
  attentionBlocked: 'attention',
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

describe.each(Object.keys(kernels) as KernelName[])('the kernel %s', (name) => {
  const { bindings } = kernels[name];

  it('has its bindings in the shader’s order', async () => {
    const code = await shaderText(name, readShader, 'f32');
    const found = [...code.matchAll(/@group\(0\) @binding\((\d+)\) var<([^>]+)>/g)].map((match) => [
      Number(match[1]),
      match[2],
    ]);
    const kinds = { read: 'storage, read', write: 'storage, read_write', uniform: 'uniform' };
    expect(found).toEqual(bindings.map((binding, index) => [index, kinds[binding]]));
  });

  it('packs Params and Step as the shader declares them', async () => {
    const code = await shaderText(name, readShader, 'f32');
    const own = uniformOf[name];
    expect(structFields(code, 'Params')).toEqual(own && Object.entries(uniformLayouts[own]));
    const shared = { Step: 'step', RopeParams: 'ropeKvWrite' } as const;
    for (const [struct, layout] of Object.entries(shared)) {
      const fields = structFields(code, struct);
      if (fields) expect(fields).toEqual(Object.entries(uniformLayouts[layout]));
    }
    for (const [, type] of code.matchAll(/var<uniform> \w+: (\w+);/g))
      expect(type === 'Params' ? own !== null : Object.hasOwn(shared, type!), type).toBe(true);
  });

  it('lists in its header the parts that follow it', async () => {
    const [shader, ...parts] = shaderFiles(name, 'f32').map((file) =>
      file.replace('products_f32', 'products'),
    );
    const code = await readShader(shader!);
    const names = (list: string | undefined) => list?.split(', ').map((part) => `parts/${part}`) ?? [];
    const always = names(/^\/\/ Parts: ([^.]*)\.$/m.exec(code)?.[1]);
    const ends = /^\/\/ Ends: (.*)\.$/m.exec(code)?.[1]?.split('; ') ?? [undefined];
    expect(ends.map((end) => [...always, ...names(end)])).toContainEqual(parts);
  });

  it('enables f16 only if it computes in f16', async () => {
    const inF16 = shaderFiles(name, 'f16').includes('parts/products_f16');
    expect(inF16).toBe(name.startsWith('gemm'));
    const texts = await Promise.all(
      (['f32', 'f16'] as const).map((each) => shaderText(name, readShader, each)),
    );
    expect(texts.map((text) => text.startsWith('enable f16;'))).toEqual([false, inF16]);
    if (!inF16) expect(texts[0]).toBe(texts[1]);
  });
});

it('packUniform packs each field into 4 bytes, padded to 16', () => {
  const packed = packUniform('rmsNorm', { hidden: 3, hidden4: 4, eps: 0.5 });
  expect(packed.byteLength).toBe(16);
  expect([...new Uint32Array(packed, 0, 2)]).toEqual([3, 4]);
  expect(new Float32Array(packed, 8, 1)[0]).toBe(0.5);
});
