/**
 * Vulkan drivers on Linux: the system's, lavapipe, and the SwiftShader that comes through npm. A driver is chosen by
 * environment variables that must be set before the addon loads and that hide all others: one driver a process.
 */
import { constants, createReadStream, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { extract } from 'tar-stream';
import { AdapterError } from '../../errors.ts';
import { packageRoot } from './paths.ts';
import { writeEntry } from './untar.ts';

export type Driver = 'system' | 'lavapipe' | 'swiftshader';

const icdFolders = ['/usr/share/vulkan/icd.d', '/etc/vulkan/icd.d', '/usr/local/share/vulkan/icd.d'];
const libraryFolders = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib',
  '/lib64',
  '/usr/local/lib',
];

/** glibc's RTLD_NODELETE: the library stays loaded although it is no addon, and Dawn then finds it by its name. */
const RTLD_NODELETE = 0x1000;

function findLavapipe(): string | null {
  for (const folder of icdFolders) {
    if (!existsSync(folder)) continue;
    const name = readdirSync(folder).find((file) => /^lvp_icd.*\.json$/.test(file));
    if (name) return path.join(folder, name);
  }
  return null;
}

function systemLoaderExists(): boolean {
  const searched = [...libraryFolders, ...(process.env.LD_LIBRARY_PATH ?? '').split(':').filter(Boolean)];
  return searched.some((folder) => existsSync(path.join(folder, 'libvulkan.so.1')));
}

async function cacheFolder(): Promise<string> {
  const beside = path.join(packageRoot, 'node_modules', '.cache');
  try {
    mkdirSync(beside, { recursive: true });
    await access(beside, constants.W_OK);
    return path.join(beside, 'kvferry');
  } catch {
    return path.join(os.tmpdir(), 'kvferry-cache');
  }
}

/** Unpacks SwiftShader and its Vulkan loader once; returns their folder. Linux x64 only. */
async function unpackSwiftShader(): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new AdapterError(
      `SwiftShader comes with kvferry for Linux x64 only, and this is ${process.platform} ${process.arch}: use --adapter gpu`,
    );
  }
  const require = createRequire(import.meta.url);
  const entry = require.resolve('@sparticuz/chromium');
  const root =
    entry.slice(0, entry.lastIndexOf(path.join('@sparticuz', 'chromium'))) +
    path.join('@sparticuz', 'chromium');
  const archive = path.join(root, 'bin', 'swiftshader.tar.br');
  const { version } = require(path.join(root, 'package.json')) as { version: string };
  const folder = path.join(await cacheFolder(), `swiftshader-${version}`);
  if (existsSync(path.join(folder, 'libvk_swiftshader.so'))) return folder;

  const scratch = `${folder}.${process.pid}`;
  mkdirSync(scratch, { recursive: true });
  const unpack = extract();
  unpack.on('entry', (header, stream, next) =>
    writeEntry(scratch, header, stream as unknown as Readable, next),
  );
  await pipeline(createReadStream(archive), createBrotliDecompress(), unpack);
  try {
    renameSync(scratch, folder);
  } catch {
    // Another process was first; its copy is as good.
    rmSync(scratch, { recursive: true, force: true });
  }
  return folder;
}

/** Whether the driver could be there at all; the probe tells whether Dawn accepts it. */
export function driverPresent(driver: Driver): boolean {
  if (driver === 'swiftshader') return process.platform === 'linux' && process.arch === 'x64';
  if (driver === 'lavapipe') return findLavapipe() !== null;
  return true;
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
    if (!systemLoaderExists()) preload(path.join(await unpackSwiftShader(), 'libvulkan.so.1'));
    return;
  }
  const folder = await unpackSwiftShader();
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
