/**
 * A headless Chromium for tests: the one in @sparticuz/chromium (Linux x64), unpacked once into the cache folder with its
 * libraries, fonts and software GPU. KVFERRY_BROWSER names another executable.
 */
import {
  chmodSync,
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { type Browser, chromium } from 'playwright-core';
import { extract } from 'tar-stream';

const require = createRequire(import.meta.url);
const packed = path.join(path.dirname(require.resolve('@sparticuz/chromium')), '..', '..', 'bin');
const cache = path.join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'kvferry');

/** The folder of the unpacked browser. Several test files may ask at once: the first to finish wins. */
async function unpack(): Promise<string> {
  const { version } = require(path.join(packed, '..', 'package.json')) as { version: string };
  const folder = path.join(cache, `chromium-${version}`);
  if (existsSync(folder)) return folder;
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error(
      'npm installs a Chromium for Linux x64 only: name a Chrome or Chromium in KVFERRY_BROWSER',
    );
  const scratch = `${folder}.${process.pid}`;
  mkdirSync(scratch, { recursive: true });
  const executable = path.join(scratch, 'chromium');
  await pipeline(
    createReadStream(path.join(packed, 'chromium.br')),
    createBrotliDecompress(),
    createWriteStream(executable),
  );
  chmodSync(executable, 0o755);
  for (const archive of ['al2023', 'fonts', 'swiftshader']) await untar(archive, scratch);
  try {
    renameSync(scratch, folder);
  } catch {
    rmSync(scratch, { recursive: true, force: true });
  }
  return folder;
}

async function untar(archive: string, folder: string): Promise<void> {
  const entries = extract();
  entries.on('entry', (header, stream, next) => {
    const target = path.join(folder, header.name);
    if (header.type !== 'file') {
      stream.resume();
      stream.on('end', () => next());
      return;
    }
    mkdirSync(path.dirname(target), { recursive: true });
    pipeline(stream as unknown as Readable, createWriteStream(target)).then(() => next(), next);
  });
  await pipeline(createReadStream(path.join(packed, `${archive}.tar.br`)), createBrotliDecompress(), entries);
}

/** Replaces the package's fontconfig, which names folders of its cloud host: without fonts a page shows no text. */
function fontConfig(folder: string): string {
  const file = path.join(folder, 'fonts-here.conf');
  const text = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${path.join(folder, 'fonts')}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${path.join(folder, 'fonts-cache')}</cachedir>
</fontconfig>
`;
  // A checkout that was moved or copied has the file of its old place, and the page other fonts.
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return file;
  const scratch = `${file}.${process.pid}`;
  writeFileSync(scratch, text);
  renameSync(scratch, file);
  return file;
}

export interface LaunchOptions {
  /** false: navigator.gpu is missing, as in a browser without WebGPU. */
  webgpu: boolean;
}

/** The caller must close the browser. */
export async function launchBrowser({ webgpu }: LaunchOptions = { webgpu: true }): Promise<Browser> {
  const chosen = process.env.KVFERRY_BROWSER;
  const folder = chosen ? null : await unpack();
  const gpu = webgpu
    ? ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-unsafe-swiftshader']
    : ['--disable-features=WebGPU', '--disable-gpu'];
  // Without a language Chromium reports 'en-US@posix', which Intl refuses.
  const env: Record<string, string> = {
    ...(process.env as Record<string, string>),
    LANG: 'en_US.UTF-8',
    LANGUAGE: 'en_US',
  };
  if (folder) {
    const libraries = path.join(folder, 'lib');
    env.LD_LIBRARY_PATH = [libraries, folder, env.LD_LIBRARY_PATH].filter(Boolean).join(':');
    env.FONTCONFIG_FILE = fontConfig(folder);
  }
  return chromium.launch({
    executablePath: chosen ?? path.join(folder!, 'chromium'),
    headless: true,
    env,
    args: [
      '--no-sandbox',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      ...gpu,
    ],
  });
}
