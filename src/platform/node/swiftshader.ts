/** Unpacks SwiftShader and its Vulkan loader, which are packed in @sparticuz/chromium. */
import { constants, createReadStream, existsSync, lstatSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { extract } from 'tar-stream';
import { AdapterError, messageOf } from '../../errors.ts';
import { makeDirectory } from './make-directory.ts';
import { packageRoot } from './paths.ts';
import { writeEntry } from './untar.ts';
import { userCacheFile } from './user-cache.ts';

/**
 * The folder to unpack into. `beside`: the first choice. Throws AdapterError if the only remaining choice is a folder
 * of another user.
 */
export async function cacheFolder(
  beside = path.join(packageRoot, 'node_modules', '.cache', 'kvferry'),
): Promise<string> {
  for (const folder of [beside, path.dirname(userCacheFile('swiftshader'))]) {
    // The Vulkan loader is given the driver's path in a list that is separated by colons.
    if (folder.includes(path.delimiter)) continue;
    try {
      await makeDirectory(folder);
      await access(folder, constants.W_OK);
      return folder;
    } catch {}
  }
  return ownTemporaryFolder();
}

/**
 * Files in the folder are loaded as a driver. In a shared temporary directory the folder must belong to this user, and
 * only this user may write to it.
 */
function ownTemporaryFolder(): string {
  const uid = process.getuid?.();
  const folder = path.join(os.tmpdir(), `kvferry-cache-${uid}`);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch {}
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found?.isDirectory() && found.uid === uid && (found.mode & 0o022) === 0) return folder;
  throw new AdapterError(
    `${folder} is not this user's alone, or cannot be created, so SwiftShader is not loaded from there: remove it, or set XDG_CACHE_HOME to a folder of your own`,
  );
}

/**
 * Unpacks SwiftShader and its Vulkan loader, once; returns their folder. `into`: default cacheFolder(). Linux x64 only.
 * Throws AdapterError.
 */
export async function unpackSwiftShader(into?: string): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new AdapterError(
      `kvferry includes SwiftShader for Linux x64 only, and this is ${process.platform} ${process.arch}: use --adapter gpu`,
    );
  }
  const require = createRequire(import.meta.url);
  const entry = require.resolve('@sparticuz/chromium');
  const root =
    entry.slice(0, entry.lastIndexOf(path.join('@sparticuz', 'chromium'))) +
    path.join('@sparticuz', 'chromium');
  const archive = path.join(root, 'bin', 'swiftshader.tar.br');
  const { version } = require(path.join(root, 'package.json')) as { version: string };
  const folder = path.join(into ?? (await cacheFolder()), `swiftshader-${version}`);
  if (existsSync(path.join(folder, 'libvk_swiftshader.so'))) return folder;

  const scratch = `${folder}.${process.pid}`;
  const unpack = extract();
  unpack.on('entry', (header, stream, next) =>
    writeEntry(scratch, header, stream as unknown as Readable, next),
  );
  try {
    await makeDirectory(scratch);
    await pipeline(createReadStream(archive), createBrotliDecompress(), unpack);
    try {
      renameSync(scratch, folder);
    } catch (error) {
      // Another process was first; its copy is identical.
      if (!existsSync(folder)) throw error;
    }
  } catch (error) {
    throw new AdapterError(
      `SwiftShader cannot be unpacked into ${path.dirname(folder)} (${messageOf(error)}): make room there, or set XDG_CACHE_HOME to a folder with 20 MB free`,
      { cause: error },
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return folder;
}
