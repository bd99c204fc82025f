/**
 * What the probe of a driver found, kept between runs: a start then begins without another process. It counts while the
 * machine's drivers and devices are as they were. Linux only, where both can be seen in files.
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

type Kept = Partial<Record<Driver, { machine: string; adapter: ProbedAdapter }>>;

const VERSION = 1;
const keptFile = (): string => userCacheFile('adapters.json');
/** Of the environment: what a Vulkan loader or lavapipe goes by. */
const SETTINGS = /^(VK_|LP_|XDG_DATA_|LD_LIBRARY_PATH$|KVFERRY_DAWN_ADAPTER$)/;
const manifestFolders = [...icdFolders, path.join(homeFolder(), '.local', 'share', 'vulkan', 'icd.d')];
const GPU_DEVICES = /^(nvidia|kfd|dxg|mali)/;

/** null: not known of this machine as it is. */
export function keptProbe(driver: Driver, machine: string | null, file = keptFile()): ProbedAdapter | null {
  const kept = machine === null ? undefined : readKept(file)[driver];
  return kept?.machine === machine ? kept!.adapter : null;
}

/** The last that was to be kept. Never rejects. */
let keeping: Promise<unknown> = Promise.resolve();

/** False when it could not be written: the next run probes again. */
export async function keepProbe(
  driver: Driver,
  machine: string | null,
  adapter: ProbedAdapter,
  file = keptFile(),
): Promise<boolean> {
  if (machine === null) return false;
  // One after the other, for drivers are probed at once: each is kept beside the others.
  const kept = keeping.then(() => {
    const probes: Kept = { ...readKept(file), [driver]: { machine, adapter } };
    return writeUserCache(file, { version: VERSION, probes });
  });
  keeping = kept;
  return kept;
}

/** Starts what takes the adapter that was found; where it cannot, that may be there no more, and is forgotten. */
export async function withProbes<T>(start: () => Promise<T>, file = keptFile()): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (error instanceof AdapterError) forget(file);
    throw error;
  }
}

/** As far as it can be written there: why nothing started counts more. */
function forget(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {}
}

/** A file that is missing, or not as it was written, counts as empty. */
function readKept(file: string): Kept {
  try {
    const { version, probes } = JSON.parse(readFileSync(file, 'utf8')) as { version: number; probes: Kept };
    return version === VERSION && probes ? probes : {};
  } catch {
    return {};
  }
}

/** All that decides what a probe finds; null where that is not known. Changes with a driver's update, too. */
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

/** Versions of those that Dawn and SwiftShader come with. */
function driverPackages(): unknown {
  const { dependencies } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  return [dependencies.webgpu, dependencies['@sparticuz/chromium']];
}

const list = (folder: string): string[] => namesIn(folder).toSorted();

/** null: there is none, or none that this user can reach, and so no loader. */
function stamp(file: string): string | null {
  try {
    const { mtimeMs, size } = statSync(file);
    return `${mtimeMs} ${size}`;
  } catch {
    return null;
  }
}

/** That a driver's manifest names. */
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
