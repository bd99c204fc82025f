/** Settings to and from the URL's hash: only what differs from the defaults is written, and everything is checked. */
import type { z } from 'zod';
import { nearest } from '../../../src/config/fields.ts';
import { lessonSettings } from '../lessons/list.ts';
import { defaultSettings, type SettingKey, type Settings, settingsSchema } from './settings.ts';

const keys = Object.keys(settingsSchema.shape) as SettingKey[];

/** Parts of a hash that only the fleet's view reads and checks (../fleet/address.ts): they stay as they are. */
const ofFleet = ([key, value]: readonly [string, string]): boolean =>
  key.startsWith('fleet.') || (key === 'view' && value === 'fleet');

/** '' when everything is as by default, or as the lesson has it, else '#key=value&…'. `now`: the hash whose other parts stay. */
export function toHash(settings: Settings, now: string): string {
  const base: Partial<Settings> = { ...defaultSettings, ...lessonSettings(settings.lesson) };
  const changed = keys.filter((key) =>
    key === 'lesson' ? settings.lesson !== null : settings[key] !== base[key],
  );
  const pairs = changed.map((key) => [key, settings[key] === null ? 'off' : String(settings[key])]);
  pairs.push(...[...new URLSearchParams(now.slice(1))].filter(ofFleet));
  return pairs.length === 0 ? '' : `#${new URLSearchParams(pairs)}`;
}

/** What the hash says, over what its lesson sets; a sentence for each part that it cannot mean, which is left at its default. */
export function fromHash(hash: string): { settings: Settings; problems: string[] } {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const lesson = settingsSchema.shape.lesson.safeParse(parameters.get('lesson'));
  const base = { ...defaultSettings, ...lessonSettings(lesson.data ?? null) };
  const parts = [...parameters].filter((part) => !ofFleet(part));
  const read = readParts(parts, settingsSchema.shape, base);
  return { settings: read.values as Settings, problems: read.problems };
}

/** Parts of a hash over what holds without them, each checked by its schema. `prefix`: of the names there. */
export function readParts(
  parts: readonly (readonly [string, string])[],
  shape: Readonly<Record<string, z.ZodType>>,
  base: Readonly<Record<string, unknown>>,
  prefix = '',
): { values: Record<string, unknown>; problems: string[] } {
  const values: Record<string, unknown> = { ...base };
  const problems: string[] = [];
  for (const [name, text] of parts) {
    const key = name.slice(prefix.length);
    const schema = Object.hasOwn(shape, key) ? shape[key] : undefined;
    if (!schema) {
      const near = nearest(key, Object.keys(shape));
      problems.push(
        `The address sets '${name}', which is no setting${near ? `: did you mean ${prefix}${near}?` : '.'}`,
      );
      continue;
    }
    const parsed = schema.safeParse(text === 'off' ? null : text);
    if (parsed.success) values[key] = parsed.data;
    else problems.push(`The address sets ${name} to '${text}': wanted ${wanted(parsed.error)}.`);
  }
  return { values, problems };
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
