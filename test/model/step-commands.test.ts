/** How a step's dispatches become command buffers, with a device that records them. */
import { expect, it } from 'vitest';
import type { GpuDevice } from '../../src/gpu/device.ts';
import type { KernelLibrary } from '../../src/gpu/kernels.ts';
import type { KernelTiming } from '../../src/model/pass/kernel-timing.ts';
import type { Work } from '../../src/model/pass/stage.ts';
import { portionsOf, StepCommands } from '../../src/model/pass/step-commands.ts';

const works = (count: number): Work[] =>
  Array.from({ length: count }, (_, x) => ({ x, y: 1, z: 1, label: `${x}` }) as Work);

it.each([
  [1, [1]],
  [31, [31]],
  [34, [16, 18]],
  [84, [16, 68]],
  [184, [16, 40, 128]],
  [2000, [16, 40, 100, 250, 625, 969]],
])('cuts %i dispatches into portions that grow, in order', (count, sizes) => {
  const part = works(count);
  const portions = portionsOf(part);
  expect(portions.flat()).toEqual(part);
  expect(portions.map(({ length }) => length)).toEqual(sizes);
});

/** A command buffer here is the list of what was encoded. */
function recording(software: boolean): StepCommands {
  const device = {
    createCommandEncoder() {
      const encoded: unknown[] = [];
      return {
        encoded,
        beginComputePass: ({ timestampWrites }: GPUComputePassDescriptor) => {
          if (timestampWrites) encoded.push(timestampWrites);
          return { encoded, end() {} };
        },
        finish: () => encoded,
      };
    },
  };
  const library = {
    encode: (pass: { encoded: unknown[] }, { x }: Work) => pass.encoded.push(x),
  };
  return new StepCommands(
    { device, report: { software } } as unknown as GpuDevice,
    library as unknown as KernelLibrary,
  );
}

const timingOf = (mode: 'submits' | 'kernels'): KernelTiming => {
  const destroyed = () => {};
  const passAt = (index: number) => `pass ${index}`;
  const resolve = ({ encoded }: { encoded: unknown[] }, passes: number) => encoded.push(`resolve ${passes}`);
  return { mode, passAt, resolve, destroy: destroyed } as unknown as KernelTiming;
};

const copy = (encoder: GPUCommandEncoder): void => {
  (encoder as unknown as { encoded: unknown[] }).encoded.push('copy');
};
const range = (from: number, end: number): number[] => Array.from({ length: end - from }, (_, i) => from + i);

it('submits a part in portions on a GPU, the copy with the last, and at once on a software adapter', () => {
  const part = works(60);
  expect([...recording(false).submits(part, copy)]).toEqual([[range(0, 16)], [range(16, 60), ['copy']]]);
  expect([...recording(true).submits(part, copy)]).toEqual([[range(0, 60), ['copy']]]);
});

it('encodes a portion only when it is about to be submitted', () => {
  const seen: number[] = [];
  const part = works(60).map((work) => ({
    ...work,
    get x() {
      seen.push(work.x);
      return work.x;
    },
  }));
  const submits = recording(false).submits(part);
  submits.next();
  expect(seen).toEqual(range(0, 16));
});

it('uses what was encoded ahead, in one submit, once, and only for the same dispatches', () => {
  const commands = recording(false);
  const part = works(60);
  commands.encodeAhead(part);
  expect([...commands.submits(works(60))]).toEqual([[range(0, 60)]]);
  expect([...commands.submits(works(60))]).toHaveLength(2);
  commands.encodeAhead(part);
  expect([...commands.submits(works(61))].flat()).toEqual([range(0, 16), range(16, 61)]);
});

it('times each portion, or each dispatch, and what was encoded ahead as one; new timing drops the latter', () => {
  const commands = recording(false);
  commands.encodeAhead(works(60));
  commands.timing = timingOf('submits');
  expect([...commands.submits(works(60))]).toEqual([
    [['pass 0', ...range(0, 16)]],
    [['pass 1', ...range(16, 60), 'resolve 2']],
  ]);
  expect(commands.passes).toBe(2);
  commands.encodeAhead(works(60));
  expect([...commands.submits(works(60))]).toEqual([[['pass 0', ...range(0, 60), 'resolve 1']]]);
  expect(commands.passes).toBe(1);
  commands.timing = timingOf('kernels');
  expect([...commands.submits(works(40))]).toEqual([
    [[...range(0, 40).flatMap((i) => [`pass ${i}`, i]), 'resolve 40']],
  ]);
  expect(commands.passes).toBe(40);
});
