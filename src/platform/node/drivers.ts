/**
 * Vulkan drivers on Linux: the system's, lavapipe, and the SwiftShader that comes through npm. A driver is chosen by
 * environment variables that must be set before the addon loads and that hide all others: one driver a process.
 */
import { existsSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { AdapterError } from '../../errors.ts';

export type Driver = 'system' | 'lavapipe' | 'swiftshader';

/** What Dawn makes of a driver. */
export interface ProbedAdapter {
  driver: Driver;
  vendor: string;
  architecture: string;
  /** For people. */
  name: string;
  software: boolean;
  features: string[];
  subgroupMinSize: number | null;
  subgroupMaxSize: number | null;
  maxBufferSize: number;
  maxStorageBufferBindingSize: number;
}

export const icdFolders: readonly string[] = [
  '/usr/share/vulkan/icd.d',
  '/etc/vulkan/icd.d',
  '/usr/local/share/vulkan/icd.d',
];
export const libraryFolders: readonly string[] = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib',
  '/lib64',
  '/usr/local/lib',
];

/** glibc's RTLD_NODELETE: the library stays loaded although it is no addon, and Dawn then finds it by its name. */
const RTLD_NODELETE = 0x1000;

/** As manifests name them; Debian and Fedora also have those of 32-bit programs beside. */
const MACHINES: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64' };

/** Of a folder's files the lavapipe manifest for this processor; one that names none is for all. */
export function lavapipeManifest(files: readonly string[], arch: string = process.arch): string | undefined {
  const machine = MACHINES[arch];
  if (!machine) return files.find((file) => /^lvp_icd.*\.json$/.test(file));
  return [`lvp_icd.${machine}.json`, 'lvp_icd.json'].find((file) => files.includes(file));
}

/** Names in a folder; none where this user may not look, or there is no such folder. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function findLavapipe(): string | null {
  for (const folder of icdFolders) {
    const name = lavapipeManifest(namesIn(folder));
    if (name) return path.join(folder, name);
  }
  return null;
}

function systemLoaderExists(): boolean {
  const searched = [...libraryFolders, ...(process.env.LD_LIBRARY_PATH ?? '').split(':').filter(Boolean)];
  return searched.some((folder) => existsSync(path.join(folder, 'libvulkan.so.1')));
}

/** SwiftShader's folder. What unpacks it is loaded by those who want it only. */
const unpacked = async (): Promise<string> => (await import('./swiftshader.ts')).unpackSwiftShader();

/** Whether the driver could be there at all; the probe tells whether Dawn accepts it. */
export function driverPresent(driver: Driver): boolean {
  if (driver === 'swiftshader') return process.platform === 'linux' && process.arch === 'x64';
  if (driver === 'lavapipe') return findLavapipe() !== null;
  return true;
}

/** Manifests, or folders of them, that the user has the loader take in place of the system's: a lavapipe there may be another. */
export function driversNamed(): string[] {
  const { VK_DRIVER_FILES, VK_ICD_FILENAMES } = process.env;
  return (VK_DRIVER_FILES || VK_ICD_FILENAMES || '').split(path.delimiter).filter(Boolean);
}

/**
 * Makes this process use the driver. Call before the addon is loaded by any thread; once a process.
 * Throws AdapterError when the driver is not on this machine.
 */
export async function selectDriver(driver: Driver): Promise<void> {
  if (driver === 'system') return;
  // Mesa and the loader complain on stderr without it.
  process.env.XDG_RUNTIME_DIR ??= os.tmpdir();
  if (driver === 'lavapipe') {
    const icd = findLavapipe();
    if (!icd) {
      throw new AdapterError(
        `no lavapipe driver in ${icdFolders.join(', ')}: install Mesa's Vulkan drivers (25 or newer; on Debian 12 ` +
          'mesa-vulkan-drivers from bookworm-backports), or use --adapter swiftshader',
      );
    }
    setIcd(icd);
    if (!systemLoaderExists()) preload(path.join(await unpacked(), 'libvulkan.so.1'));
    return;
  }
  const folder = await unpacked();
  setIcd(path.join(folder, 'vk_swiftshader_icd.json'));
  if (!systemLoaderExists()) preload(path.join(folder, 'libvulkan.so.1'));
}

function setIcd(file: string): void {
  process.env.VK_DRIVER_FILES = file;
  process.env.VK_ICD_FILENAMES = file;
}

function preload(library: string): void {
  try {
    process.dlopen({ exports: {} } as NodeJS.Module, library, os.constants.dlopen.RTLD_NOW | RTLD_NODELETE);
  } catch {
    // Expected: it is no addon. It stays loaded all the same; if it could not be opened, the probe finds no adapter.
  }
}
