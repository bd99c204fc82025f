/**
 * Reads JSON from a model's directory and validates it against a schema. Errors name the file and the key in one
 * sentence.
 */
import { z } from 'zod';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';

export const pathOf = (files: FileSource, name: string): string =>
  `${files.location.replace(/\/+$/, '')}/${name}`;

/** null if the file does not exist. Throws ModelError if it is not JSON or does not match the schema. */
export async function readJson<T>(files: FileSource, name: string, schema: z.ZodType<T>): Promise<T | null> {
  const text = await files.readText(name);
  if (text === null) return null;
  return parseJson(text, pathOf(files, name), schema);
}

export async function requireJson<T>(files: FileSource, name: string, schema: z.ZodType<T>): Promise<T> {
  return parseJson(await requireText(files, name), pathOf(files, name), schema);
}

/** Throws ModelError if the file does not exist. */
export async function requireText(files: FileSource, name: string): Promise<string> {
  const text = await files.readText(name);
  if (text === null) {
    throw new ModelError(`${files.location} has no ${name}: wanted a Hugging Face model directory with one`);
  }
  return text;
}

/** `where` names the text in errors. */
export function parseJson<T>(text: string, where: string, schema: z.ZodType<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ModelError(`${where} is not JSON (${(error as Error).message}): copy the file again`, {
      cause: error,
    });
  }
  const parsed = schema.safeParse(value, { reportInput: true });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const key = issue.path.join('.') || 'the whole file';
  // The message tells the type that was found, but not the value.
  const found = typeof issue.input === 'number' ? ` is ${issue.input}` : '';
  throw new ModelError(`${where}: ${key}${found}: ${issue.message}; correct it`, { cause: parsed.error });
}

/** An object with any content. */
export const anyObject = z.record(z.string(), z.unknown());
