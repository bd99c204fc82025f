/** Settings to and from the URL's hash. Only settings that differ from the defaults are written; all are checked. */
import type { z } from 'zod';
import { nearest } from '../../../src/config/fields.ts';
import { lessonSettings } from '../lessons/list.ts';
import {
  defaultPools,
  defaultSettings,
  LABELS,
  type SettingKey,
  type Settings,
  settingsSchema,
} from './settings.ts';

const keys = Object.keys(settingsSchema.shape) as SettingKey[];

/** Parts of a hash that only the fleet view reads and checks (../fleet/address.ts); they are left unchanged. */
const ofFleet = ([key, value]: readonly [string, string]): boolean =>
  key.startsWith('fleet.') || (key === 'view' && value === 'fleet');

/** What a hash leaves out: the defaults with its model, and its lesson's settings. */
function baseOf(lesson: number | null, model: string | null): Settings {
  const ofLesson = lessonSettings(lesson);
  const pools = defaultPools(model ?? ofLesson.model ?? defaultSettings.model);
  return { ...defaultSettings, ...pools, ...ofLesson };
}

/** '#key=value&…', or '' if all settings are the defaults or the lesson's. `now`: the current hash; its fleet parts stay. */
export function toHash(settings: Settings, now: string): string {
  const base = baseOf(settings.lesson, settings.model);
  const changed = keys.filter((key) =>
    key === 'lesson' ? settings.lesson !== null : settings[key] !== base[key],
  );
  const pairs = changed.map((key) => [key, settings[key] === null ? 'off' : String(settings[key])]);
  pairs.push(...[...new URLSearchParams(now.slice(1))].filter(ofFleet));
  return pairs.length === 0 ? '' : `#${new URLSearchParams(pairs)}`;
}

/** The hash's settings over its lesson's; and a sentence for each invalid part, which keeps its default. */
export function fromHash(hash: string): { settings: Settings; problems: string[] } {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const lesson = settingsSchema.shape.lesson.safeParse(parameters.get('lesson'));
  const base = baseOf(lesson.data ?? null, parameters.get('model'));
  const parts = [...parameters].filter((part) => !ofFleet(part));
  const read = readParts(parts, settingsSchema.shape, base);
  return { settings: read.values as Settings, problems: read.problems };
}

/** Reads parts of a hash over `base`, each checked by its schema. `prefix`: the prefix of the names in the hash. */
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
        `The address sets '${name}', which is not a setting${near ? `: did you mean ${prefix}${near}?` : '.'}`,
      );
      continue;
    }
    const parsed = schema.safeParse(text === 'off' ? null : text);
    if (parsed.success) values[key] = parsed.data;
    else problems.push(`The address sets ${name} to '${text}': wanted ${wanted(parsed.error)}.`);
  }
  return { values, problems };
}

/** Checks a change from a control or a lesson. Throws Error with a sentence that says what was wanted. */
export function checkedSettings(now: Settings, change: Partial<Settings>): Settings {
  const parsed = settingsSchema.safeParse({ ...defaultSettings, ...change });
  // The others stay as they are: a recording's pools may be larger than those that the page builds.
  if (parsed.success) {
    const changed = Object.keys(change).map((key) => [key, parsed.data[key as SettingKey]]);
    return { ...now, ...poolsWith(now, change.model), ...Object.fromEntries(changed) };
  }
  const issue = parsed.error.issues[0]!;
  const key = String(issue.path[0] ?? '');
  const label = (LABELS as Partial<Record<string, string>>)[key];
  const name = label ? `“${label}” (${key} in the address)` : key;
  throw new Error(`${name} is '${String(change[key as SettingKey])}': wanted ${issue.message}.`);
}

/** With another model, pools of the default size get its default. */
function poolsWith(now: Settings, model: string | undefined): Partial<Settings> {
  if (model === undefined) return {};
  const [was, will] = [defaultPools(now.model), defaultPools(model)];
  return {
    pBlocks: now.pBlocks === was.pBlocks ? will.pBlocks : now.pBlocks,
    dBlocks: now.dBlocks === was.dBlocks ? will.dBlocks : now.dBlocks,
  };
}

const wanted = (error: z.ZodError): string => error.issues[0]?.message ?? 'something else';
