/** The fleet's settings to and from the address: only what differs from the defaults is written. */
import { readParts } from '../session/hash.ts';
import { defaultFleet, type FleetKey, type FleetSettings, fleetSchema } from './settings.ts';

const PREFIX = 'fleet.';

/** What the hash says, `base` where it says nothing at all; a sentence for each part that it cannot mean, which is left at its default. */
export function fleetFromHash(
  hash: string,
  base: FleetSettings,
): { settings: FleetSettings; problems: string[] } {
  const parts = [...new URLSearchParams(hash.slice(1))].filter(([key]) => key.startsWith(PREFIX));
  if (parts.length === 0) return { settings: base, problems: [] };
  const { values, problems } = readParts(parts, fleetSchema.shape, defaultFleet, PREFIX);
  return { settings: values as FleetSettings, problems };
}

/** The hash with these in place of those that it has. */
export function hashWithFleet(hash: string, settings: FleetSettings): string {
  const others = [...new URLSearchParams(hash.slice(1))].filter(([key]) => !key.startsWith(PREFIX));
  const changed = (Object.keys(settings) as FleetKey[]).filter((key) => settings[key] !== defaultFleet[key]);
  const own = changed.map((key) => [PREFIX + key, settings[key] === null ? 'off' : String(settings[key])]);
  return `#${new URLSearchParams([...others, ...own])}`;
}
