import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  kernelVersion,
  readF16Speed,
  readTuning,
  writeF16Speed,
  writeTuning,
} from '../../src/cli/node/tuning-cache.ts';
import { defaultChoice, gemmCandidates, ROW_CLASSES } from '../../src/model/kernels/gemm-forms.ts';
import { adapterForm } from '../../src/model/kernels/kernel-variants.ts';
import { nodePlatform } from '../../src/platform/node.ts';

const gpu = adapterForm({ subgroupSize: 32, software: false });
const candidates = gemmCandidates(gpu);
const choice = defaultChoice(gpu);
const other = { ...choice, 16: candidates[16][1]! };
let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-tuning-'));
  file = path.join(folder, 'deeper', 'tuning.json');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('a tuning result', () => {
  it('is kept by adapter and shape', async () => {
    expect(await readTuning(file, 'a', candidates)).toBeNull();
    expect(await writeTuning(file, 'a', choice)).toBe(true);
    expect(await writeTuning(file, 'b', { ...other, enoughBlocked: 61 })).toBe(true);
    expect(await readTuning(file, 'a', candidates)).toEqual(choice);
    expect(await readTuning(file, 'b', candidates)).toEqual({ ...other, enoughBlocked: 61 });
    expect(await readTuning(file, 'constructor', candidates)).toBeNull();
  });

  it('is measured again if one of its forms is no candidate of the adapter', async () => {
    const software = adapterForm({ subgroupSize: 32, software: true });
    for (const rows of ROW_CLASSES) {
      const foreign = defaultChoice(software)[rows];
      await writeTuning(file, 'a', { ...choice, [rows]: foreign });
      expect(await readTuning(file, 'a', candidates), `${foreign} for ${rows}`).toBeNull();
    }
    await writeTuning(file, 'a', defaultChoice(software));
    expect(await readTuning(file, 'a', gemmCandidates(software))).toEqual(defaultChoice(software));
  });

  it('is kept alongside the speed of f16', async () => {
    expect(await readF16Speed(file, 'a')).toBeNull();
    expect(await writeTuning(file, 'a', choice)).toBe(true);
    expect(await writeF16Speed(file, 'a', 1.25)).toBe(true);
    expect(await writeTuning(file, 'b', other)).toBe(true);
    expect(await readF16Speed(file, 'a')).toBe(1.25);
    expect(await readF16Speed(file, 'b')).toBeNull();
    expect(await readTuning(file, 'a', candidates)).toEqual(choice);
  });

  it('is read from a file without speeds of f16', async () => {
    await writeTuning(file, 'a', choice);
    writeFileSync(file, JSON.stringify({ version: 2, gemm: { a: choice } }));
    expect(await readTuning(file, 'a', candidates)).toEqual(choice);
    expect(await readF16Speed(file, 'a')).toBeNull();
  });

  it.each(['no JSON', '{"version":1,"gemm":{}}', '{"version":2,"gemm":{"a":{"1":"gemm 3"}}}'])(
    'is measured again if the file contains %s, which is then replaced',
    async (content) => {
      await writeTuning(file, 'a', choice);
      writeFileSync(file, content);
      expect(await readTuning(file, 'a', candidates)).toBeNull();
      expect(await writeTuning(file, 'a', other)).toBe(true);
      expect(await readTuning(file, 'a', candidates)).toEqual(other);
      expect(JSON.parse(readFileSync(file, 'utf8')).version).toBe(2);
    },
  );

  it('is measured each time if the folder cannot be written', async () => {
    writeFileSync(path.join(folder, 'deeper'), 'a file in the way');
    expect(await writeTuning(file, 'a', choice)).toBe(false);
    expect(await readTuning(file, 'a', candidates)).toBeNull();
  });

  it.each(['gemm_tiled', 'parts/step'])(
    'depends on the source of the kernels, such as %s',
    async (changed) => {
      const { readShader } = nodePlatform;
      const now = await kernelVersion(readShader, 'f32');
      expect(await kernelVersion(readShader, 'f32')).toBe(now);
      expect(await kernelVersion(readShader, 'f16')).not.toBe(now);
      const other = async (name: string) => (await readShader(name)) + (name === changed ? '// other' : '');
      expect(await kernelVersion(other, 'f32')).not.toBe(now);
    },
  );
});
