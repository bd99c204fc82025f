/** Which form of the matrix kernel serves which number of rows and which matrix. Needs no device. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { KernelLibrary } from '../../src/gpu/kernels.ts';
import {
  choiceOf,
  defaultChoice,
  type GemmChoice,
  gemmCandidates,
} from '../../src/model/kernels/gemm-forms.ts';
import {
  type AdapterForm,
  adapterForm,
  compiledGemmFor,
  type GemmVariant,
  gemmFor,
  gemmVariants,
} from '../../src/model/kernels/kernel-variants.ts';

const noLibrary = () =>
  new KernelLibrary({} as GpuDevice, () => Promise.reject(new Error('nothing is made')));

const variantsOf = (form: AdapterForm, f32: boolean, columns4: readonly number[], choice?: GemmChoice) =>
  gemmVariants(noLibrary(), form, f32, columns4, choice);

/** The order in which a variant sums along k. */
const orderOf = ({ kernel: { name, overrides } }: GemmVariant): string =>
  name === 'gemmSplit' || (name === 'gemmBlocked' && overrides.WHOLE === 0) ? 'in parts' : 'in one go';

const nameOf = ({ kernel: { name, overrides } }: GemmVariant): string =>
  `${name} ${overrides.ROWS ?? 64}${overrides.EIGHTS ? ` of ${8 * overrides.EIGHTS}` : ''}`;

describe('forms of the matrix kernel', () => {
  it('sum in one order for a matrix, for any number of rows and whichever kernels are compiled', () => {
    const width = fc.integer({ min: 1, max: 4000 });
    const adapter = fc.constantFrom(
      adapterForm({ subgroupSize: 32, software: false }),
      adapterForm({ subgroupSize: null, software: false }),
      adapterForm({ subgroupSize: 8, software: true }),
    );
    const draw = fc.tuple(adapter, fc.boolean(), fc.array(width, { minLength: 1, maxLength: 5 }), fc.nat());
    fc.assert(
      fc.property(draw, ([form, f32, columns4, seed]) => {
        const candidates = gemmCandidates(form);
        const choice = choiceOf((rows) => candidates[rows][seed % candidates[rows].length]!);
        const variants = variantsOf(form, f32, columns4, choice);
        // Compiled: those of one row, which every engine has, and some others.
        for (const [i, { kernel, upTo }] of variants.entries())
          if (upTo === 1 || (seed >> i) % 2 === 1) kernel.pipeline = {} as GPUComputePipeline;
        for (const columns of columns4) {
          const taken = [1, 2, 4, 5, 16, 17, 64, 65, 1000].flatMap((rows) => [
            gemmFor(variants, rows, columns),
            compiledGemmFor(variants, rows, columns, () => {}),
          ]);
          expect(new Set(taken.map(orderOf)).size).toBe(1);
          for (const { kernel } of taken)
            if (columns % 2 !== 0) expect(['gemmWide', 'gemmSplit']).not.toContain(kernel.name);
        }
      }),
    );
  });

  it('on a GPU are narrow enough to fill the device, and split along k for few rows', () => {
    const [narrow, wide] = [512, 4096];
    const variants = variantsOf(adapterForm({ subgroupSize: 32, software: false }), false, [narrow, wide]);
    const names = (columns4: number) =>
      [1, 4, 16, 64, 1024].map((rows) => nameOf(gemmFor(variants, rows, columns4)));
    const few = (columns: number) =>
      ['gemmSplit 1', 'gemmSplit 4', 'gemmSplit 4'].map((n) => `${n} of ${columns}`);
    expect(names(narrow)).toEqual([...few(32), 'gemmSplit 4 of 32', 'gemmBlocked 64']);
    expect(names(wide)).toEqual([...few(64), 'gemmBlocked 64', 'gemmBlocked 64']);
  });

  it('on a GPU leave a matrix to the split form up to as many workgroups as measured there', () => {
    const form = adapterForm({ subgroupSize: 32, software: false });
    const choice = { ...defaultChoice(form), enoughBlocked: 61 };
    // 16 workgroups of the blocked form for each 64 rows.
    const names = (chosen: GemmChoice) =>
      [128, 129, 192, 193].map((rows) => nameOf(gemmFor(variantsOf(form, false, [512], chosen), rows, 512)));
    const [split, blocked] = ['gemmSplit 4 of 32', 'gemmBlocked 64'];
    expect(names(choice)).toEqual([split, split, split, blocked]);
    expect(names(defaultChoice(form))).toEqual([split, blocked, blocked, blocked]);
  });

  it('are compiled only if some matrix uses them', () => {
    const kernels = (columns4: number[]) =>
      new Set(variantsOf(adapterForm({ subgroupSize: 32, software: false }), false, columns4).map(nameOf));
    expect(kernels([512, 1024])).toEqual(
      new Set(['gemmSplit 1 of 32', 'gemmSplit 4 of 32', 'gemmBlocked 64']),
    );
    expect(kernels([512, 4096])).toContain('gemmSplit 4 of 64');
    expect(kernels([513])).toContain('gemmPortable 1');
  });
});
