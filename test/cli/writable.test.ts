/** Output paths are checked before anything is measured. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { nodeDeps } from '../../src/cli/node/node-deps.ts';

it('checkWritable accepts new and existing files, and refuses a directory or a missing folder', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
  try {
    const { checkWritable } = await nodeDeps();
    const file = path.join(folder, 'known.json');
    writeFileSync(file, '');
    await checkWritable(file);
    await checkWritable(path.join(folder, 'new.json'));
    await expect(checkWritable(folder)).rejects.toThrow(`cannot write ${folder}: it is a directory`);
    await expect(checkWritable(path.join(folder, 'no', 'such.json'))).rejects.toThrow(
      'no such file or directory',
    );
    await expect(checkWritable(path.join(file, 'below.json'))).rejects.toThrow('cannot write');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('makeDirectory creates a directory with its parents, or says that it cannot', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
  try {
    const { makeDirectory } = await nodeDeps();
    const deep = path.join(folder, 'a', 'b');
    await Promise.all([makeDirectory(deep), makeDirectory(deep)]);
    writeFileSync(path.join(deep, 'file'), '');
    await makeDirectory(deep);
    await expect(makeDirectory(path.join(deep, 'file', 'below'))).rejects.toThrow(
      'a file of that name already exists; give another path',
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

// Linux answers there as if the folders above were missing.
it.runIf(existsSync('/proc/self'))(
  'makeDirectory says that it cannot create a directory in /proc',
  async () => {
    const { makeDirectory } = await nodeDeps();
    await expect(makeDirectory('/proc/kvferry/kv')).rejects.toThrow(
      /cannot create the directory \/proc\/kvferry\/kv: .*; give another path/,
    );
  },
);
