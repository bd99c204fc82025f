/** The SwiftShader, and its Vulkan loader, that lie packed in @sparticuz/chromium. */
import { constants, createReadStream, existsSync, renameSync, rmSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { extract } from 'tar-stream';
import { AdapterError } from '../../errors.ts';
import { makeDirectory } from './make-directory.ts';
import { packageRoot } from './paths.ts';
import { writeEntry } from './untar.ts';

async function cacheFolder(): Promise<string> {
  const beside = path.join(packageRoot, 'node_modules', '.cache');
  try {
    await makeDirectory(beside);
    await access(beside, constants.W_OK);
    return path.join(beside, 'kvferry');
  } catch {
    return path.join(os.tmpdir(), 'kvferry-cache');
  }
}

/** Unpacks SwiftShader and its Vulkan loader once; returns their folder. Linux x64 only. */
export async function unpackSwiftShader(): Promise<string> {
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
  await makeDirectory(scratch);
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
