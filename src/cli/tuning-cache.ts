/** What was measured of this machine's adapters, kept between runs: a small JSON file in the user's cache folder. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { z } from 'zod';
import { type ReadShader, shaderText } from '../gpu/kernels.ts';
import { formOf, GEMM_FORMS, type GemmChoice } from '../model/gemm-forms.ts';

const form = z.enum(GEMM_FORMS);
const fileSchema = z.strictObject({
  version: z.literal(1),
  /** By adapter, driver, kernels and shape. */
  gemm: z.record(z.string(), z.strictObject({ 1: form, 4: form, 16: form, more: form })),
});

export function tuningFile(): string {
  const folder = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  return path.join(folder, 'kvferry', 'tuning.json');
}

/** A file that is missing, or not as it was written, counts as empty. */
async function readAll(file: string): Promise<Record<string, GemmChoice>> {
  try {
    return fileSchema.parse(JSON.parse(await readFile(file, 'utf8'))).gemm;
  } catch {
    return {};
  }
}

export async function readTuning(file: string, key: string): Promise<GemmChoice | null> {
  const all = await readAll(file);
  return Object.hasOwn(all, key) ? all[key]! : null;
}

/** False when it could not be written: the next run measures again. */
export async function writeTuning(file: string, key: string, choice: GemmChoice): Promise<boolean> {
  const content = { version: 1, gemm: { ...(await readAll(file)), [key]: choice } };
  // Whole or not at all: another process may read it.
  const scratch = `${file}.${process.pid}`;
  try {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(scratch, `${JSON.stringify(content, null, 2)}\n`);
    await rename(scratch, file);
    return true;
  } catch {
    return false;
  }
}

/** Changes with the kernels: what was measured of others is worth nothing. */
export async function kernelVersion(readShader: ReadShader): Promise<string> {
  const names = new Set(GEMM_FORMS.map((form) => formOf(form).name));
  const texts = await Promise.all([...names].map((name) => shaderText(name, readShader)));
  return bytesToHex(sha256(utf8ToBytes(texts.join('\n')))).slice(0, 12);
}
