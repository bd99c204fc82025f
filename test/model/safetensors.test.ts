import { describe, expect, it } from 'vitest';
import { ModelError } from '../../src/errors.ts';
import { memorySource } from '../../src/model/load.ts';
import { SafetensorsFile } from '../../src/model/weights/safetensors.ts';
import { rawSafetensors, safetensors } from './checkpoint.ts';

const open = (file: Uint8Array) =>
  SafetensorsFile.open(memorySource('m', { 'x.safetensors': file }), 'x.safetensors');
const entry = (begin: number, end: number, more: object = {}) => ({
  dtype: 'F32',
  shape: [(end - begin) / 4],
  data_offsets: [begin, end],
  ...more,
});
const withHeader = (header: object, bytes: number) =>
  rawSafetensors(JSON.stringify(header), new Uint8Array(bytes));

describe('the safetensors reader', () => {
  it('reads F32, F16 and BF16 as the numbers they hold', async () => {
    const values = [1, -2.5, 0, 65_504, 2 ** -14];
    const bfloats = [1, -2.5, 0, 65_536, 2 ** -14];
    const file = await open(
      safetensors({
        f32: { shape: [5], values: [...values.slice(0, 4), 0.1] },
        f16: { shape: [5], values, dtype: 'F16' },
        bf16: { shape: [1, 5], values: bfloats, dtype: 'BF16' },
      }),
    );
    expect([...(await file.readFloats('f32'))]).toEqual([...values.slice(0, 4), Math.fround(0.1)]);
    expect([...(await file.readFloats('f16'))]).toEqual(values);
    expect([...(await file.readFloats('bf16'))]).toEqual(bfloats);
    expect(file.tensor('bf16').shape).toEqual([1, 5]);
  });

  it.each([
    ['an empty file', new Uint8Array(0), /has 0 bytes/],
    [
      'a header longer than the file',
      rawSafetensors('{}', new Uint8Array(4)).slice(0, 9),
      /header of 2 bytes but has 9/,
    ],
    [
      'an impossible header length',
      new TextEncoder().encode('version https://git-lfs'),
      /announces a header of \d+ bytes/,
    ],
    [
      'a header that is not JSON',
      rawSafetensors('{"a":', new Uint8Array(0)),
      /the header of m\/x.safetensors is not JSON/,
    ],
    ['a header that lacks fields', rawSafetensors('{"a":{"dtype":"F32"}}', new Uint8Array(0)), /a\.shape/],
    [
      'truncated data',
      withHeader({ a: entry(0, 16) }, 12),
      /has \d+ bytes, wanted \d+ according to its header: it is truncated/,
    ],
    ['bytes after the end', withHeader({ a: entry(0, 16) }, 20), /has extra bytes/],
    [
      'a shape that does not match its bytes',
      withHeader({ a: entry(0, 16, { shape: [5] }) }, 16),
      /a of F32 \[5\] has 16 bytes, wanted 20/,
    ],
    [
      'overlapping tensors',
      withHeader({ a: entry(0, 8), b: entry(4, 12) }, 12),
      /tensor b begins at byte .* overlap/,
    ],
    [
      'a gap between tensors',
      withHeader({ a: entry(0, 4), b: entry(8, 12) }, 12),
      /tensor b begins at byte .* gap/,
    ],
    [
      'a tensor that ends before it begins',
      withHeader({ a: entry(8, 4, { shape: [1] }) }, 12),
      /has -4 bytes, wanted 4/,
    ],
    ['an unknown dtype', withHeader({ a: entry(0, 4, { dtype: 'F12' }) }, 4), /unknown dtype F12/],
  ])('refuses %s in one sentence', async (_, file, message) => {
    const error = await open(file).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ModelError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain('\n');
  });

  it('names a missing file, a missing tensor and an unsupported dtype', async () => {
    await expect(SafetensorsFile.open(memorySource('m', {}), 'x.safetensors')).rejects.toThrow(
      'm/x.safetensors does not exist',
    );
    const file = await open(withHeader({ a: entry(0, 4, { dtype: 'I32' }) }, 4));
    await expect(file.readFloats('b')).rejects.toThrow('no tensor b');
    await expect(file.readFloats('a')).rejects.toThrow('tensor a has dtype I32: wanted F32, F16 or BF16');
  });
});
