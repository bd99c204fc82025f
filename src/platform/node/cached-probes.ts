/**
 * Caches probe results on disk, so that a start needs no child process. A result is valid while the machine's drivers
 * and devices are unchanged. Linux only, where files show both.
 */
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { AdapterError } from '../../errors.ts';
import {
  type Driver,
  driversNamed,
  icdFolders,
  libraryFolders,
  namesIn,
  type ProbedAdapter,
} from './drivers.ts';
import { packageRoot } from './paths.ts';
import { homeFolder, userCacheFile, writeUserCache } from './user-cache.ts';

type CachedProbes = Partial<Record<Driver, { machine: string; adapter: ProbedAdapter }>>;

const VERSION = 1;
const cacheFile = (): string => userCacheFile('adapters.json');
/** Environment variables that a Vulkan loader or lavapipe reads. */
const SETTINGS = /^(VK_|LP_|XDG_DATA_|LD_LIBRARY_PATH$|KVFERRY_DAWN_ADAPTER$)/;
const manifestFolders = [...icdFolders, path.join(homeFolder(), '.local', 'share', 'vulkan', 'icd.d')];
const GPU_DEVICES = /^(nvidia|kfd|dxg|mali)/;

/** null if no result for this state of the machine is cached. */
export function cachedProbe(
  driver: Driver,
  machine: string | null,
  file = cacheFile(),
): ProbedAdapter | null {
  const cached = machine === null ? undefined : readCached(file)[driver];
  return cached?.machine === machine ? cached!.adapter : null;
}

/** The last write. Never rejects. */
let writing: Promise<unknown> = Promise.resolve();

/** Returns false if it could not be written: the next run probes again. */
export async function cacheProbe(
  driver: Driver,
  machine: string | null,
  adapter: ProbedAdapter,
  file = cacheFile(),
): Promise<boolean> {
  if (machine === null) return false;
  // Drivers are probed concurrently. Writing in turn keeps each one's result.
  const cached = writing.then(() => {
    const probes: CachedProbes = { ...readCached(file), [driver]: { machine, adapter } };
    return writeUserCache(file, { version: VERSION, probes });
  });
  writing = cached;
  return cached;
}

/**
 * Runs `start`, which opens the adapter. An AdapterError may mean that a cached adapter is gone, so the cache is
 * deleted.
 */
export async function withProbes<T>(start: () => Promise<T>, file = cacheFile()): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (error instanceof AdapterError) forget(file);
    throw error;
  }
}

/** Failures are ignored: the error that is being reported matters more. */
function forget(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {}
}

/** A missing or malformed file counts as empty. */
function readCached(file: string): CachedProbes {
  try {
    const { version, probes } = JSON.parse(readFileSync(file, 'utf8')) as {
      version: number;
      probes: CachedProbes;
    };
    return version === VERSION && probes ? probes : {};
  } catch {
    return {};
  }
}

/** Everything that determines a probe's result, as a string, including driver updates. null if unknown. */
export function machineNow(folders: readonly string[] = manifestFolders): string | null {
  if (process.platform !== 'linux') return null;
  const named = driversNamed();
  const inside = (folder: string): string[] => list(folder).map((name) => path.join(folder, name));
  const drivers = [...named, ...[...folders, ...named].flatMap(inside)];
  const settings = Object.entries(process.env).filter(([name]) => SETTINGS.test(name));
  return JSON.stringify({
    packages: driverPackages(),
    kernel: os.release(),
    devices: [...list('/dev').filter((name) => GPU_DEVICES.test(name)), ...list('/dev/dri')],
    loaders: libraryFolders.map((folder) => stamp(path.join(folder, 'libvulkan.so.1'))),
    drivers: drivers.map((file) => [file, stamp(file), stamp(libraryOf(file))]),
    settings: settings.toSorted(([a], [b]) => (a < b ? -1 : 1)),
  });
}

/** Versions of the packages that contain Dawn and SwiftShader. */
function driverPackages(): unknown {
  const { dependencies } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  return [dependencies.webgpu, dependencies['@sparticuz/chromium']];
}

const list = (folder: string): string[] => namesIn(folder).toSorted();

/** null if the file does not exist or cannot be accessed, so the loader cannot use it either. */
function stamp(file: string): string | null {
  try {
    const { mtimeMs, size } = statSync(file);
    return `${mtimeMs} ${size}`;
  } catch {
    return null;
  }
}

/** The library that a driver's manifest names. */
function libraryOf(manifest: string): string {
  try {
    const { ICD } = JSON.parse(readFileSync(manifest, 'utf8')) as { ICD: { library_path: string } };
    const named = ICD.library_path;
    if (named.includes('/')) return path.resolve(path.dirname(manifest), named);
    const found = libraryFolders.map((folder) => path.join(folder, named)).find((file) => existsSync(file));
    return found ?? named;
  } catch {
    return manifest;
  }
}
