/** Links between engines: one for each direction of a pair, created when the first bytes use it. */
import { type FleetOptions, linkBetween } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import type { LinkSpec } from '../../transport/link.ts';
import type { VirtualClock } from '../clock.ts';
import { QueuedResource, type Resource, SharedResource } from '../resources.ts';
import type { SimulatedLink } from './net.ts';

/** How concurrent READs share a link: first come, first served, as in the real transport, or all at once. */
export const LINK_SHARINGS = ['fcfs', 'fair'] as const;
export type LinkSharing = (typeof LINK_SHARINGS)[number];

export class LinkTable {
  readonly #clock: VirtualClock;
  readonly #link: LinkSpec | null;
  /** Returns the current fleet. */
  readonly #fleet: () => FleetOptions;
  readonly #sharing: LinkSharing;
  readonly #links = new Map<string, SimulatedLink & { from: string; to: string }>();

  constructor(
    clock: VirtualClock,
    link: ClusterOptions['link'],
    fleet: () => FleetOptions,
    sharing: LinkSharing,
  ) {
    this.#clock = clock;
    this.#link = link;
    this.#fleet = fleet;
    this.#sharing = sharing;
  }

  /** The link between two seats, by their names; null: none is modelled. */
  between(from: string, to: string): SimulatedLink | null {
    const key = `${from} ${to}`;
    const known = this.#links.get(key);
    if (known) return known;
    const spec = this.#specOf(from, to);
    if (!spec) return null;
    const link = { from, to, resource: this.#resource(spec), latencyMs: spec.latencyMs };
    this.#links.set(key, link);
    return link;
  }

  /** What each link did so far: bytes moved, and time in use, ms. */
  use(): { from: string; to: string; bytes: number; busyMs: number }[] {
    return [...this.#links.values()].map(({ from, to, resource }) => {
      return { from, to, bytes: resource.done, busyMs: resource.busyMs };
    });
  }

  #specOf(from: string, to: string): LinkSpec | null {
    return linkBetween(this.#fleet(), from, to) ?? this.#link;
  }

  #resource({ bytesPerSecond }: LinkSpec): Resource {
    const bytesPerMs = bytesPerSecond / 1000;
    if (this.#sharing === 'fcfs') return new QueuedResource(this.#clock, bytesPerMs);
    return new SharedResource(this.#clock, (flows) => bytesPerMs / flows);
  }
}
