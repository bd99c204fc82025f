/** Where a result is to go is looked at before anything is measured. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { nodeDeps } from '../../src/cli/node-deps.ts';
import { makeFolder } from '../../src/platform/node/make-folder.ts';

it('a file may be new or known; a directory, and what lies in none, is refused', async () => {
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

it('folders are made with those around them, and what cannot be one is refused at once', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
  try {
    const below = path.join(folder, 'a', 'b');
    const beside = path.join(folder, 'a', 'c');
    // All at once, of which each finds that another was quicker.
    await Promise.all([below, beside, below, beside].map(makeFolder));
    expect([below, beside].every((made) => existsSync(made))).toBe(true);
    const file = path.join(folder, 'file');
    writeFileSync(file, '');
    await expect(makeFolder(file)).rejects.toThrow('EEXIST');
    await expect(makeFolder(path.join(file, 'below'))).rejects.toThrow('ENOTDIR');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

// Node's own way never ends there.
it.runIf(process.platform === 'linux')('a folder in /proc is refused', async () => {
  await expect(makeFolder('/proc/kvferry/kv')).rejects.toThrow('ENOENT');
});
