import { expect, it } from 'vitest';
import { loadCheckpoint } from '../../src/model/load.ts';
import { fingerprint } from '../../src/model/weights/fingerprint.ts';
import type { FileSource } from '../../src/platform/types.ts';
import { directory, oddConfig, oddTensors, type TestTensors } from './checkpoint.ts';

const of = async (files: FileSource) => fingerprint(files, (await loadCheckpoint('odd', files))!);

const changed = (name: string, index: number): TestTensors => {
  const tensors = oddTensors('F32');
  const values = Array.from(tensors[name]!.values);
  values[index]! += 1;
  return { ...tensors, [name]: { ...tensors[name]!, values } };
};

it('the fingerprint of a checkpoint changes with any tensor', async () => {
  const names = Object.keys(oddTensors('F32'));
  const all = [oddTensors('F32'), ...names.map((name) => changed(name, 0))];
  const digests = await Promise.all(all.map((tensors) => of(directory(oddConfig, tensors))));
  expect(new Set(digests).size).toBe(1 + names.length);
});

it('the fingerprint covers only files that an engine reads, not a stale shard index', async () => {
  const index = JSON.stringify({ weight_map: { 'model.norm.weight': 'gone.safetensors' } });
  const beside = (tensors: TestTensors, text: string) =>
    of(directory(oddConfig, tensors, { 'model.safetensors.index.json': text }));
  const first = await beside(oddTensors('F32'), index);
  expect(await beside(changed('model.norm.weight', 3), index)).not.toBe(first);
  expect(await beside(oddTensors('F32'), 'broken')).toBe(first);
});
