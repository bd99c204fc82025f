/** Settings to and from the URL's hash: only what differs from the defaults is written, and everything is checked. */
import type { z } from 'zod';
import { nearest } from '../../../src/config/fields.ts';
import { lessonSettings } from '../lessons/list.ts';
import { defaultSettings, type SettingKey, type Settings, settingsSchema } from './settings.ts';

const keys = Object.keys(settingsSchema.shape) as SettingKey[];

/** '' when everything is as by default, or as the lesson has it, else '#key=value&…'. */
export function toHash(settings: Settings): string {
  const base: Partial<Settings> = { ...defaultSettings, ...lessonSettings(settings.lesson) };
  const changed = keys.filter((key) =>
    key === 'lesson' ? settings.lesson !== null : settings[key] !== base[key],
  );
  const pairs = changed.map((key) => [key, settings[key] === null ? 'off' : String(settings[key])]);
  return pairs.length === 0 ? '' : `#${new URLSearchParams(pairs)}`;
}

/** What the hash says, over what its lesson sets; a sentence for each part that it cannot mean, which is left at its default. */
export function fromHash(hash: string): { settings: Settings; problems: string[] } {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const lesson = settingsSchema.shape.lesson.safeParse(parameters.get('lesson'));
  const settings: Record<string, unknown> = { ...defaultSettings, ...lessonSettings(lesson.data ?? null) };
  const problems: string[] = [];
  for (const [key, text] of parameters) {
    const schema = Object.hasOwn(settingsSchema.shape, key) ? settingsSchema.shape[key as SettingKey] : null;
    if (!schema) {
      const near = nearest(key, keys);
      problems.push(
        `The address sets '${key}', which is no setting${near ? `: did you mean ${near}?` : '.'}`,
      );
      continue;
    }
    const parsed = schema.safeParse(text === 'off' ? null : text) as z.ZodSafeParseResult<unknown>;
    if (parsed.success) settings[key] = parsed.data;
    else problems.push(`The address sets ${key} to '${text}': wanted ${wanted(parsed.error)}.`);
  }
  return { settings: settings as Settings, problems };
}

/** A change from a control or a lesson. Throws the sentence that says what was wanted. */
export function checkedSettings(now: Settings, change: Partial<Settings>): Settings {
  const parsed = settingsSchema.safeParse({ ...now, ...change });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const key = String(issue.path[0] ?? '');
  throw new Error(`${key} is '${String(change[key as SettingKey])}': wanted ${issue.message}.`);
}

const wanted = (error: z.ZodError): string => error.issues[0]?.message ?? 'something else';
