/** The fleet's settings to and from the address. Only settings that differ from the defaults are written. */
import { readParts } from '../session/hash.ts';
import { defaultFleet, type FleetKey, type FleetSettings, fleetSchema } from './settings.ts';

const PREFIX = 'fleet.';

/** The hash's settings, or `base` if it has none; and a sentence for each invalid part, which keeps its default. */
export function fleetFromHash(
  hash: string,
  base: FleetSettings,
): { settings: FleetSettings; problems: string[] } {
  const parts = [...new URLSearchParams(hash.slice(1))].filter(([key]) => key.startsWith(PREFIX));
  if (parts.length === 0) return { settings: base, problems: [] };
  const { values, problems } = readParts(parts, fleetSchema.shape, defaultFleet, PREFIX);
  return { settings: values as FleetSettings, problems };
}

/** The hash with its fleet settings replaced by these. */
export function hashWithFleet(hash: string, settings: FleetSettings): string {
  const others = [...new URLSearchParams(hash.slice(1))].filter(([key]) => !key.startsWith(PREFIX));
  const changed = (Object.keys(settings) as FleetKey[]).filter((key) => settings[key] !== defaultFleet[key]);
  const own = changed.map((key) => [PREFIX + key, settings[key] === null ? 'off' : String(settings[key])]);
  return `#${new URLSearchParams([...others, ...own])}`;
}
