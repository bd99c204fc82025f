/** Where Node finds a model by its name. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { packageRoot } from '../../src/platform/node/paths.ts';
import { nodePlatform } from '../../src/platform/node.ts';

let before: string;
let folder: string;
beforeEach(() => {
  before = process.cwd();
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'kvferry-model-')));
  process.chdir(folder);
});
afterEach(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true });
});

const locationOf = async (name: string) => (await nodePlatform.openModel(name))?.location ?? null;

test('a shipped model is found by its name, and an unknown name finds nothing', async () => {
  expect(await locationOf('recall')).toBe(path.join(packageRoot, 'models', 'recall'));
  expect(await locationOf('nobody')).toBeNull();
});

test("the names . and .. mean the user's directories, not those of the package", async () => {
  expect(await locationOf('.')).toBe(folder);
  expect(await locationOf('..')).toBe(path.dirname(folder));
});
