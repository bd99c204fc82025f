/** Caches measurements of this machine's adapters between runs, in a JSON file in the user's cache folder. */
import { readFile } from 'node:fs/promises';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { z } from 'zod';
import type { Arithmetic } from '../../config/arithmetic.ts';
import { type ReadShader, shaderText } from '../../gpu/kernels.ts';
import {
  type Candidates,
  formOf,
  GEMM_FORMS,
  type GemmChoice,
  ROW_CLASSES,
} from '../../model/kernels/gemm-forms.ts';
import { userCacheFile, writeUserCache } from '../../platform/node/user-cache.ts';

const form = z.enum(GEMM_FORMS);
/** Raised when measurements of earlier versions lack something. */
const VERSION = 2;
const choiceSchema = z.strictObject({
  ...{ 1: form, 4: form, 16: form, more: form },
  enoughBlocked: z.int().positive().optional(),
});
const fileSchema = z.strictObject({
  version: z.literal(VERSION),
  /** Keyed by adapter, driver, kernels and shape. */
  gemm: z.record(z.string(), choiceSchema),
  /** Speed of f16 relative to f32, with the same keys. */
  f16Speed: z.record(z.string(), z.number().positive()).default({}),
});

export const tuningFile = (): string => userCacheFile('tuning.json');

/** A missing or invalid file counts as empty. */
async function readAll(file: string): Promise<z.infer<typeof fileSchema>> {
  try {
    return fileSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return { version: VERSION, gemm: {}, f16Speed: {} };
  }
}

const own = <T>(all: Readonly<Record<string, T>>, key: string): T | null =>
  Object.hasOwn(all, key) ? all[key]! : null;

/**
 * null if a form is not among the candidates, which another version may have had: it may add in another order than the
 * adapter's other forms.
 */
export async function readTuning(
  file: string,
  key: string,
  candidates: Candidates,
): Promise<GemmChoice | null> {
  const choice = own((await readAll(file)).gemm, key);
  return choice && ROW_CLASSES.every((rows) => candidates[rows].includes(choice[rows])) ? choice : null;
}

export async function readF16Speed(file: string, key: string): Promise<number | null> {
  return own((await readAll(file)).f16Speed, key);
}

/** False if the file could not be written; the next run then measures again. */
export async function writeTuning(file: string, key: string, choice: GemmChoice): Promise<boolean> {
  const all = await readAll(file);
  return writeUserCache(file, { ...all, gemm: { ...all.gemm, [key]: choice } });
}

/** As writeTuning. */
export async function writeF16Speed(file: string, key: string, speed: number): Promise<boolean> {
  const all = await readAll(file);
  return writeUserCache(file, { ...all, f16Speed: { ...all.f16Speed, [key]: speed } });
}

/** A hash of the kernels' source. Measurements of other kernels are not valid. */
export async function kernelVersion(readShader: ReadShader, arithmetic: Arithmetic): Promise<string> {
  const names = new Set(GEMM_FORMS.map((form) => formOf(form).name));
  const texts = await Promise.all([...names].map((name) => shaderText(name, readShader, arithmetic)));
  return bytesToHex(sha256(utf8ToBytes(texts.join('\n')))).slice(0, 12);
}
