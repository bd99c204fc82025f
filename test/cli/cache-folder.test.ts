/** The folders that code is loaded from: SwiftShader, and Node's compiled modules. */
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import module from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import { useCompileCache } from '../../src/platform/node/compile-cache.ts';
import { cacheFolder } from '../../src/platform/node/swiftshader.ts';
import { userCacheFile } from '../../src/platform/node/user-cache.ts';

let root: string;
/** A file, so nothing can be created below it, not even by root. */
let nowhere: string;

beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), 'kvferry-'));
  nowhere = path.join(root, 'file');
  writeFileSync(nowhere, '');
  vi.stubEnv('TMPDIR', root);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true });
});

test("the cache folder is next to the package if that is writable, otherwise in the user's cache", async () => {
  vi.stubEnv('XDG_CACHE_HOME', path.join(root, 'cache'));
  const beside = path.join(root, 'node_modules', '.cache', 'kvferry');
  expect(await cacheFolder(beside)).toBe(beside);
  expect(await cacheFolder(path.join(nowhere, 'kvferry'))).toBe(path.join(root, 'cache', 'kvferry'));
});

test.each(['cache', './cache', ''])(
  'XDG_CACHE_HOME is ignored if it is not an absolute path: %j',
  (named) => {
    vi.stubEnv('XDG_CACHE_HOME', named);
    vi.stubEnv('HOME', root);
    expect(userCacheFile('adapters.json')).toBe(path.join(root, '.cache', 'kvferry', 'adapters.json'));
  },
);

test("the cache folder is in the shared temporary folder only if it is this user's alone", async () => {
  vi.stubEnv('XDG_CACHE_HOME', nowhere);
  const folder = await cacheFolder(path.join(nowhere, 'kvferry'));
  expect(path.dirname(folder)).toBe(root);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  chmodSync(folder, 0o777);
  await expect(cacheFolder(path.join(nowhere, 'kvferry'))).rejects.toThrow(AdapterError);
  rmSync(folder, { recursive: true });
  writeFileSync(folder, '');
  await expect(cacheFolder(path.join(nowhere, 'kvferry'))).rejects.toThrow("is not this user's alone");
});

test("compiled modules are kept in the user's cache, not where other users could put some", () => {
  const node = module as { enableCompileCache?: unknown };
  const before = Object.getOwnPropertyDescriptor(module, 'enableCompileCache');
  onTestFinished(() => {
    if (before) Object.defineProperty(module, 'enableCompileCache', before);
    else delete node.enableCompileCache;
  });
  const enable = vi.fn();
  node.enableCompileCache = enable;
  vi.stubEnv('XDG_CACHE_HOME', path.join(root, 'cache'));
  vi.stubEnv('NODE_COMPILE_CACHE', '');
  useCompileCache();
  expect(enable).toHaveBeenLastCalledWith(path.join(root, 'cache', 'kvferry', 'compiled'));
  vi.stubEnv('NODE_COMPILE_CACHE', path.join(root, 'named'));
  useCompileCache();
  expect(enable).toHaveBeenLastCalledWith(path.join(root, 'named'));
});
