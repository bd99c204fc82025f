import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AdapterError, ConfigError } from '../../src/errors.ts';
import { cachedProbe, cacheProbe, machineNow, withProbes } from '../../src/platform/node/cached-probes.ts';
import type { ProbedAdapter } from '../../src/platform/node/drivers.ts';
import { userCacheFile } from '../../src/platform/node/user-cache.ts';

const adapter: ProbedAdapter = {
  driver: 'system',
  vendor: 'v',
  architecture: 'a',
  name: 'a GPU',
  software: false,
  features: ['subgroups'],
  subgroupMinSize: 32,
  subgroupMaxSize: 32,
  maxBufferSize: 1,
  maxStorageBufferBindingSize: 1,
};
let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'kvferry-probes-'));
  file = path.join(folder, 'deeper', 'adapters.json');
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

describe('the result of a probe', () => {
  it('is kept by driver, for the same state of the machine', async () => {
    expect(cachedProbe('system', 'm', file)).toBeNull();
    expect(await cacheProbe('system', 'm', adapter, file)).toBe(true);
    expect(await cacheProbe('lavapipe', 'm', { ...adapter, software: true }, file)).toBe(true);
    expect(cachedProbe('system', 'm', file)).toEqual(adapter);
    expect(cachedProbe('lavapipe', 'm', file)?.software).toBe(true);
    expect(cachedProbe('swiftshader', 'm', file)).toBeNull();
    expect(cachedProbe('system', 'another', file)).toBeNull();
  });

  it('is kept for each driver if several are probed at once', async () => {
    const drivers = ['system', 'lavapipe', 'swiftshader'] as const;
    const cached = drivers.map((driver) => cacheProbe(driver, 'm', { ...adapter, name: driver }, file));
    expect(await Promise.all(cached)).toEqual([true, true, true]);
    expect(drivers.map((driver) => cachedProbe(driver, 'm', file)?.name)).toEqual(drivers);
  });

  it('is forgotten only if a start fails with an AdapterError', async () => {
    await cacheProbe('system', 'm', adapter, file);
    const fails = (error: Error) => withProbes(() => Promise.reject(error), file);
    await expect(fails(new ConfigError('wrong'))).rejects.toThrow('wrong');
    expect(await withProbes(async () => 'started', file)).toBe('started');
    expect(cachedProbe('system', 'm', file)).toEqual(adapter);
    await expect(fails(new AdapterError('gone'))).rejects.toThrow('gone');
    expect(cachedProbe('system', 'm', file)).toBeNull();
  });

  it('is not kept if the machine cannot be identified or nothing can be written', async () => {
    expect(await cacheProbe('system', null, adapter, file)).toBe(false);
    expect(cachedProbe('system', null, file)).toBeNull();
    writeFileSync(path.join(folder, 'deeper'), 'a file in the way');
    expect(await cacheProbe('system', 'm', adapter, file)).toBe(false);
  });

  it('may fail to be removed without hiding why the start failed', async () => {
    mkdirSync(file, { recursive: true });
    await expect(withProbes(() => Promise.reject(new AdapterError('gone')), file)).rejects.toThrow('gone');
  });

  it.each([
    'no JSON',
    'null',
    '{"version":0,"probes":{"system":{"machine":"m","adapter":{}}}}',
    '{"version":1}',
  ])('is not read but replaced if the file contains %s', async (content) => {
    mkdirSync(path.dirname(file));
    writeFileSync(file, content);
    expect(cachedProbe('system', 'm', file)).toBeNull();
    expect(await cacheProbe('system', 'm', adapter, file)).toBe(true);
    expect(cachedProbe('system', 'm', file)).toEqual(adapter);
  });
});

describe.runIf(process.platform === 'linux')('the state of the machine', () => {
  it("changes with a driver, its library, and the loader's settings", () => {
    const seen = [machineNow([folder])];
    const again = () => {
      seen.push(machineNow([folder]));
      expect(new Set(seen).size).toBe(seen.length);
    };
    expect(machineNow([folder])).toBe(seen[0]);
    const library = path.join(folder, 'libvulkan_some.so');
    writeFileSync(path.join(folder, 'some_icd.json'), JSON.stringify({ ICD: { library_path: library } }));
    again();
    writeFileSync(library, 'one');
    again();
    utimesSync(library, 1, 1);
    again();
    const named = path.join(folder, 'deeper', 'named_icd.json');
    vi.stubEnv('VK_DRIVER_FILES', named);
    again();
    mkdirSync(path.dirname(named));
    writeFileSync(named, JSON.stringify({ ICD: { library_path: './libvulkan_named.so' } }));
    again();
    writeFileSync(path.join(folder, 'deeper', 'libvulkan_named.so'), 'another');
    again();
  });

  it('is known even if a link leads nowhere or a folder cannot be read', () => {
    const none = machineNow([folder]);
    symlinkSync('loop.json', path.join(folder, 'loop.json'));
    const library = path.join(folder, 'loop.json', 'libvulkan_some.so');
    writeFileSync(path.join(folder, 'some_icd.json'), JSON.stringify({ ICD: { library_path: library } }));
    expect(machineNow([folder])).not.toBe(none);
    expect(machineNow([path.join(folder, 'some_icd.json')])).toBe(none);
  });
});

describe('the cache folder', () => {
  it('of a user without a home is below the root, where nothing can be kept', async () => {
    vi.stubEnv('XDG_CACHE_HOME', '');
    const home = vi.spyOn(os, 'homedir').mockImplementation(() => {
      throw new Error('no such file or directory');
    });
    try {
      expect(userCacheFile('some.json')).toBe('/.cache/kvferry/some.json');
      home.mockReturnValue('');
      expect(userCacheFile('some.json')).toBe('/.cache/kvferry/some.json');
    } finally {
      home.mockRestore();
    }
  });
});

it.runIf(process.platform === 'linux')(
  "a lavapipe named by VK_DRIVER_FILES is used in place of the one in the system's folders",
  async () => {
    vi.stubEnv('XDG_CACHE_HOME', folder);
    vi.stubEnv('VK_DRIVER_FILES', '/opt/mesa/lvp_icd.json');
    vi.stubEnv('VK_ICD_FILENAMES', undefined);
    const own = { ...adapter, name: 'lavapipe (Mesa 26.0.0)', software: true };
    await cacheProbe('system', machineNow(), own);
    await cacheProbe('swiftshader', machineNow(), { ...adapter, name: 'SwiftShader', software: true });
    // A process chooses its adapter once.
    vi.resetModules();
    const { useAdapter } = await import('../../src/platform/node/adapters.ts');
    // The first one asked for is used, although another is asked for before it is set up.
    const [first, beside] = await Promise.allSettled([useAdapter('auto'), useAdapter('swiftshader')]);
    expect(first).toMatchObject({ value: own });
    expect(beside.status).toBe('rejected');
    expect(process.env.VK_DRIVER_FILES).toBe('/opt/mesa/lvp_icd.json');
    for (const same of ['auto', 'lavapipe', 'Mesa 26']) expect(await useAdapter(same)).toEqual(own);
    for (const another of ['swiftshader', 'gpu', 'nvidia'])
      await expect(useAdapter(another)).rejects.toThrow(
        `this process uses lavapipe (Mesa 26.0.0), and a process cannot change its driver: start another process for the adapter ${another}`,
      );
  },
);
