/** What a report says of the modelled links that slowed its transfers down: --link's, and those of its fleet file. */
import { fleetFileSchema } from '../config/fleet-schema.ts';

export const THROTTLED = 'throttled (modelled link)';

const MOST_PAIRS = 3;

interface Linked {
  /** The name of --link; a fleet file's links are in the settings only. */
  link: string | null;
  config: Readonly<Record<string, unknown>>;
}

/** The links by name and place, such as '10e6,1ms across nodes'; null if every transfer ran as fast as the machine copies. */
export function modelledLinks({ link, config }: Linked): string | null {
  const fleet = fleetFileSchema.safeParse(config.fleet).data;
  const pairs = fleet?.links ?? [];
  const named = pairs
    .slice(0, MOST_PAIRS)
    .map(({ between, link }) => `${link} between ${between.join(' and ')}`);
  const nodes = (fleet?.rolesets ?? []).flatMap(({ node: own, prefill, decode, both }) =>
    [...prefill, ...decode, ...both].flatMap(({ node = own }) => node ?? []),
  );
  const distinct = new Set(nodes).size;
  const links = [
    ...(link === null ? [] : [link]),
    ...(fleet?.sameNode && distinct < nodes.length ? [`${fleet.sameNode} within a node`] : []),
    ...(fleet?.acrossNodes && distinct > 1 ? [`${fleet.acrossNodes} across nodes`] : []),
    ...named,
    ...(pairs.length > MOST_PAIRS ? [`${pairs.length - MOST_PAIRS} more pairs`] : []),
  ];
  return links.length === 0 ? null : links.join('; ');
}

export function throttledLabel(linked: Linked): string | null {
  const links = modelledLinks(linked);
  return links === null ? null : `${THROTTLED}: ${links}`;
}
