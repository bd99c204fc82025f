/**
 * The link model: delays the chunks of an ordered pair of engines so that they arrive no sooner than over a link with the given
 * rate and latency. It only adds delay: a link faster than this machine's copies has no effect.
 */
import { distance } from 'fastest-levenshtein';
import type { Clock } from '../engine/types.ts';
import { ConfigError } from '../errors.ts';

export interface LinkSpec {
  /** As written by the user. */
  name: string;
  /** Per direction (full duplex). */
  bytesPerSecond: number;
  /** One-way latency, ms, added to every chunk. Latencies of consecutive chunks overlap. */
  latencyMs: number;
}

/** Nominal line rates per direction, and the one-way latency of a small message. */
export const LINK_PRESETS: Readonly<Record<string, { bytesPerSecond: number; latencyMs: number }>> = {
  /** NVLink 4: 900 GB/s for both directions together. */
  nvlink: { bytesPerSecond: 450e9, latencyMs: 0.001 },
  /** 400 Gbit/s InfiniBand NDR or RoCE. */
  'rdma-400g': { bytesPerSecond: 50e9, latencyMs: 0.002 },
  /** PCIe 5.0 x16, rounded. */
  pcie: { bytesPerSecond: 64e9, latencyMs: 0.001 },
  '100gbe': { bytesPerSecond: 12.5e9, latencyMs: 0.01 },
  '10gbe': { bytesPerSecond: 1.25e9, latencyMs: 0.02 },
  '1gbe': { bytesPerSecond: 125e6, latencyMs: 0.05 },
};

const RATE = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?:([kmgt]i?)?(b|byte|bytes|bit)?)?(?:\/s)?$/;
const LATENCY = /^(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(ns|us|µs|ms|s)$/;
const SCALE: Readonly<Record<string, number>> = {
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  ki: 2 ** 10,
  mi: 2 ** 20,
  gi: 2 ** 30,
  ti: 2 ** 40,
};
const MILLISECONDS: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000 };

/**
 * Parses a preset's name or a rate (bytes/s by default), and an optional latency with a unit: `10gbe`, `10e6`, `1gb/s,50us`,
 * `400gbit/s`. The latency defaults to the preset's, or to 0 for a rate. Throws ConfigError for anything else.
 */
export function parseLink(text: string): LinkSpec {
  const [ratePart = '', latencyPart, ...rest] = text
    .toLowerCase()
    .split(',')
    .map((part) => part.trim());
  if (rest.length > 0) throw linkError(text, 'it has more than one comma');
  const preset = Object.hasOwn(LINK_PRESETS, ratePart) ? LINK_PRESETS[ratePart]! : null;
  const bytesPerSecond = preset?.bytesPerSecond ?? parseRate(text, ratePart);
  const latencyMs = latencyPart === undefined ? (preset?.latencyMs ?? 0) : parseLatency(text, latencyPart);
  return { name: text, bytesPerSecond, latencyMs };
}

function parseRate(text: string, rate: string): number {
  const match = RATE.exec(rate);
  if (!match) throw linkError(text, `'${rate}' is neither a preset nor a rate`, rate);
  const [, digits, scale, unit] = match;
  const value = (Number(digits) * (scale ? SCALE[scale]! : 1)) / (unit === 'bit' ? 8 : 1);
  if (!(value > 0 && Number.isFinite(value))) throw linkError(text, 'its rate must be more than 0 bytes/s');
  return value;
}

function parseLatency(text: string, latency: string): number {
  const match = LATENCY.exec(latency);
  if (!match) throw linkError(text, `'${latency}' is not a latency with a unit (ns, us, ms, s)`);
  const ms = Number(match[1]) * MILLISECONDS[match[2]!]!;
  if (!Number.isFinite(ms)) throw linkError(text, `a latency of ${latency} is too large`);
  return ms;
}

function linkError(text: string, what: string, typo?: string): ConfigError {
  const names = Object.keys(LINK_PRESETS);
  const nearest = typo
    ? names
        .toSorted((a, b) => distance(a, typo) - distance(b, typo))
        .find((name) => distance(name, typo) <= 3)
    : undefined;
  const hint = typo === 'none' ? 'leave it out for none, or ' : nearest ? `did you mean ${nearest}? ` : '';
  return new ConfigError(
    `link '${text}': ${what}; ${hint}use ${names.join(', ')} or <bytes/s>[,<latency>], such as 10e6,1ms.`,
  );
}

/** One direction of a link, first in, first out. A chunk occupies it for bytes / rate, then takes the latency. */
export class LinkQueue {
  readonly #spec: LinkSpec;
  readonly #clock: Clock;
  /** When the last accepted chunk has left the sender, ms. */
  #freeAt = 0;
  #lastDelivery: Promise<unknown> = Promise.resolve();

  constructor(spec: LinkSpec, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
  }

  /**
   * Accepts a chunk now. Resolves when it arrives, in order, or to null if the signal aborts first. An aborted chunk still
   * occupies the link for its time.
   */
  deliver(byteLength: number, signal: AbortSignal): Promise<{ startMs: number; arrivalMs: number } | null> {
    const startMs = Math.max(this.#clock.now(), this.#freeAt);
    this.#freeAt = startMs + (byteLength / this.#spec.bytesPerSecond) * 1000;
    const arrivalMs = this.#freeAt + this.#spec.latencyMs;
    const delivery = this.#lastDelivery.then(async () => {
      // A timer may fire slightly early; a chunk must not arrive early.
      for (let left = arrivalMs - this.#clock.now(); left > 0; left = arrivalMs - this.#clock.now()) {
        if (signal.aborted) return null;
        await this.#clock.sleep(left, signal);
      }
      return signal.aborted ? null : { startMs, arrivalMs };
    });
    this.#lastDelivery = delivery.catch(() => null);
    return delivery;
  }
}

/** The queue of the current link model. A change applies from the next chunk on. */
export class ActiveLink {
  readonly #spec: () => LinkSpec | null;
  readonly #clock: Clock;
  #queueSpec: LinkSpec | null = null;
  #queue: LinkQueue | null = null;

  constructor(spec: () => LinkSpec | null, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
  }

  /** null if no link is modelled. */
  get queue(): LinkQueue | null {
    const spec = this.#spec();
    if (spec !== this.#queueSpec) {
      this.#queueSpec = spec;
      this.#queue = spec && new LinkQueue(spec, this.#clock);
    }
    return this.#queue;
  }
}
