/** What was measured of this machine's adapters, kept between runs: a small JSON file in the user's cache folder. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { GEMM_FORMS, type GemmChoice } from '../model/gemm-forms.ts';

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
