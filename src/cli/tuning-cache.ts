/** What was measured of this machine's adapters, kept between runs: a small JSON file in the user's cache folder. */
import { readFile } from 'node:fs/promises';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { z } from 'zod';
import { type ReadShader, shaderText } from '../gpu/kernels.ts';
import { formOf, GEMM_FORMS, type GemmChoice } from '../model/gemm-forms.ts';
import { userCacheFile, writeUserCache } from '../platform/node/user-cache.ts';

const form = z.enum(GEMM_FORMS);
const fileSchema = z.strictObject({
  version: z.literal(1),
  /** By adapter, driver, kernels and shape. */
  gemm: z.record(z.string(), z.strictObject({ 1: form, 4: form, 16: form, more: form })),
});

export const tuningFile = (): string => userCacheFile('tuning.json');

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
  return writeUserCache(file, { version: 1, gemm: { ...(await readAll(file)), [key]: choice } });
}

/** Changes with the kernels: what was measured of others is worth nothing. */
export async function kernelVersion(readShader: ReadShader): Promise<string> {
  const names = new Set(GEMM_FORMS.map((form) => formOf(form).name));
  const texts = await Promise.all([...names].map((name) => shaderText(name, readShader)));
  return bytesToHex(sha256(utf8ToBytes(texts.join('\n')))).slice(0, 12);
}
