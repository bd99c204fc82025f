/**
 * Vulkan drivers on Linux: the system's, lavapipe, and the SwiftShader that npm installs. Environment variables select
 * a driver. They hide all other drivers and must be set before the addon loads, so a process uses one driver.
 */
import { existsSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { AdapterError, messageOf } from '../../errors.ts';

export type Driver = 'system' | 'lavapipe' | 'swiftshader';

/** An adapter as Dawn reports it. Sizes in bytes. */
export interface ProbedAdapter {
  driver: Driver;
  vendor: string;
  architecture: string;
  /** Readable name. */
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

/** glibc's RTLD_NODELETE. The library stays loaded although it is not an addon, and Dawn then finds it by its name. */
const RTLD_NODELETE = 0x1000;

/** Processor names in manifest file names. Debian and Fedora also install manifests of 32-bit drivers. */
const MACHINES: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64' };

/**
 * The lavapipe manifest for this processor among a folder's files. A manifest whose name has no processor serves all.
 */
export function lavapipeManifest(files: readonly string[], arch: string = process.arch): string | undefined {
  const machine = MACHINES[arch];
  if (!machine) return files.find((file) => /^lvp_icd.*\.json$/.test(file));
  return [`lvp_icd.${machine}.json`, 'lvp_icd.json'].find((file) => files.includes(file));
}

/** Names in a folder; empty if it does not exist or cannot be read. */
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

/** SwiftShader's folder. The unpacker is imported only when needed. */
const unpacked = async (): Promise<string> => (await import('./swiftshader.ts')).unpackSwiftShader();

/**
 * Why the driver cannot be used on this machine; null if it may be installed. Only a probe shows whether Dawn accepts it. On
 * macOS and Windows, Dawn computes through Metal and Direct3D 12, and would find the GPU under any name of a driver.
 */
export function driverAbsence(driver: Driver): string | null {
  if (driver === 'system') return null;
  if (driver === 'swiftshader')
    return process.platform === 'linux' && process.arch === 'x64'
      ? null
      : 'kvferry has it for Linux x64 only';
  if (process.platform !== 'linux') return 'kvferry uses it on Linux only';
  return findLavapipe() === null ? 'not installed' : null;
}

/**
 * Driver manifests, or folders of them, that the user's environment gives the Vulkan loader instead of the system's. A
 * lavapipe among them may be another build.
 */
export function driversNamed(): string[] {
  const { VK_DRIVER_FILES, VK_ICD_FILENAMES } = process.env;
  return (VK_DRIVER_FILES || VK_ICD_FILENAMES || '').split(path.delimiter).filter(Boolean);
}

/**
 * Makes this process use the driver. Call once, before any thread loads the addon. Throws AdapterError if the driver is
 * not installed.
 */
export async function selectDriver(driver: Driver): Promise<void> {
  if (driver === 'system') return;
  // Without it, Mesa and the loader print warnings on stderr.
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
    if (!systemLoaderExists()) preload(await unpacked(), 'libvulkan.so.1');
    return;
  }
  const folder = await unpacked();
  setIcd(path.join(folder, 'vk_swiftshader_icd.json'));
  if (!systemLoaderExists()) preload(folder, 'libvulkan.so.1');
  // The Vulkan loader does not say why it cannot open a driver.
  preload(folder, 'libvk_swiftshader.so');
}

function setIcd(file: string): void {
  process.env.VK_DRIVER_FILES = file;
  process.env.VK_ICD_FILENAMES = file;
}

/** Throws AdapterError if the library cannot be opened. */
export function preload(folder: string, library: string): void {
  const file = path.join(folder, library);
  try {
    process.dlopen({ exports: {} } as NodeJS.Module, file, os.constants.dlopen.RTLD_NOW | RTLD_NODELETE);
  } catch (error) {
    // Where Node may load no addons, Dawn says so.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_DLOPEN_FAILED') return;
    const reason = messageOf(error).replace(`${file}: `, '');
    // The library stays loaded although it is not an addon.
    if (reason.includes('self-register')) return;
    throw new AdapterError(
      `${file} cannot be loaded (${reason}): if nothing may be run from there, as with docker's --tmpfs, set XDG_CACHE_HOME to a folder where programs may be run`,
      { cause: error },
    );
  }
}
