/** The folders that code is loaded from: SwiftShader, and Node's compiled modules. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import module from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import { useCompileCache } from '../../src/platform/node/compile-cache.ts';
import { preload } from '../../src/platform/node/drivers.ts';
import { packageRoot } from '../../src/platform/node/paths.ts';
import { cacheFolder, unpackSwiftShader } from '../../src/platform/node/swiftshader.ts';
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

test('the cache folder has no colon in its path, which would end it in the list of drivers', async () => {
  vi.stubEnv('XDG_CACHE_HOME', path.join(root, 'cache'));
  expect(await cacheFolder(path.join(root, 'a:b', 'kvferry'))).toBe(path.join(root, 'cache', 'kvferry'));
});

test.runIf(process.platform === 'linux' && process.arch === 'x64')(
  'where SwiftShader cannot be unpacked, the error names the folder and the way out',
  async () => {
    const { dependencies } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));
    const version = dependencies['@sparticuz/chromium'];
    writeFileSync(path.join(root, `swiftshader-${version}.${process.pid}`), 'in the way');
    const failed = unpackSwiftShader(root);
    await expect(failed).rejects.toThrow(AdapterError);
    await expect(failed).rejects.toThrow(/^SwiftShader cannot be unpacked into .+ \(.+\): .*XDG_CACHE_HOME/);
  },
);

test('a driver that cannot be loaded, as from a folder mounted noexec, is an error that says why', () => {
  writeFileSync(path.join(root, 'libdriver.so'), 'no library');
  expect(() => preload(root, 'libdriver.so')).toThrow(AdapterError);
  expect(() => preload(root, 'libdriver.so')).toThrow(
    /libdriver\.so cannot be loaded \(.+\): .*XDG_CACHE_HOME/,
  );
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
  enable.mockClear();
  // Node would never return: below /proc no directory can be created, and it tries again and again.
  vi.stubEnv('NODE_COMPILE_CACHE', '/proc/kvferry/compiled');
  useCompileCache();
  expect(enable).not.toHaveBeenCalled();
});
