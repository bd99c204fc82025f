/** The fleet view's settings. All of them are in the address, each as fleet.NAME. */
import { z } from 'zod';
import { anyNumber, oneOf, wholeNumber } from '../../../src/config/fields.ts';
import { ROUTING_NAMES, type RoutingName } from '../../../src/config/routing.ts';
import { EVICTIONS } from '../../../src/config/store.ts';
import { ConfigError } from '../../../src/errors.ts';
import { presetArchitecture } from '../../../src/model/architecture/presets.ts';
import { NAMED_COSTS } from '../../../src/simulate/costs/published.ts';
import { checkRoom, longestOf } from '../../../src/simulate/live/room.ts';
import {
  LIVE_AUTOSCALERS,
  type LiveLoadSettings,
  type LiveSettings,
} from '../../../src/simulate/live/settings.ts';
import type { CostsHere } from '../session/experiments/costs.ts';

/** Simulated seconds per second of wall time. */
export const PACES = ['1/10', '1', '5', '20'] as const;
export type Pace = (typeof PACES)[number];
export const speedOf = (pace: Pace): number => (pace === '1/10' ? 0.1 : Number(pace));

/** The name of costs that were measured on this page. */
export const MEASURED = 'measured';

export const MOST_ENGINES = 8;
export const MOST_RATE = 200;

/** Limits of real engines, which share one GPU and this page's memory. */
export const REAL_MODEL = 'nano';
export const REAL_MOST = { prefill: 2, decode: 2, blocks: 1024, store: 1024, storeFolder: 0 } as const;

const engines = wholeNumber(`1 to ${MOST_ENGINES} engines`, { min: 1, max: MOST_ENGINES });
const tokens = (max: number) => wholeNumber(`1 to ${max} tokens`, { min: 1, max });

export const fleetSchema = z.strictObject({
  engines: oneOf(['simulated', 'real']).default('simulated'),
  prefill: engines.default(2),
  decode: engines.default(2),
  blocks: wholeNumber('32 to 4096 blocks', { min: 32, max: 4096 }).default(256),
  /** Blocks of the store, and of the folder below its memory; 0: none. */
  store: wholeNumber('0 to 8192 blocks', { min: 0, max: 8192 }).default(0),
  storeFolder: wholeNumber('0 to 65536 blocks', { min: 0, max: 65_536 }).default(0),
  storeEviction: oneOf(EVICTIONS).default('s3fifo'),
  mode: oneOf(['bidirectional', 'unidirectional']).default('bidirectional'),
  routing: oneOf(ROUTING_NAMES).default('round-robin'),
  autoscale: oneOf(LIVE_AUTOSCALERS).nullable().default(null),
  startUp: anyNumber('0 to 600 seconds', { min: 0, max: 600 }).default(10),
  rate: anyNumber(`0 to ${MOST_RATE} requests a second`, { min: 0, max: MOST_RATE }).default(12),
  turns: wholeNumber('1 to 12 turns', { min: 1, max: 12 }).default(4),
  question: tokens(1000).default(200),
  answer: tokens(500).default(64),
  system: wholeNumber('0 to 2000 tokens', { min: 0, max: 2000 }).default(256),
  think: anyNumber('0 to 60 seconds', { min: 0, max: 60 }).default(1),
  seed: wholeNumber('a whole number from 0 on', { min: 0 }).default(1),
  costs: oneOf([MEASURED, ...Object.keys(NAMED_COSTS)]).default('dynamo-mocker'),
  /** SLO of the time to the first token, milliseconds. */
  slo: anyNumber('a time above 0, milliseconds', { above: 0 }).default(200),
  pace: oneOf(PACES).default('1'),
  /** The policies to compare, each under the same load for this many seconds. */
  first: oneOf(ROUTING_NAMES).default('round-robin'),
  second: oneOf(ROUTING_NAMES).default('least-request'),
  third: oneOf(ROUTING_NAMES).default('prefix-cache'),
  seconds: wholeNumber('5 to 600 seconds', { min: 5, max: 600 }).default(60),
});

export type FleetSettings = Readonly<z.infer<typeof fleetSchema>>;
export type FleetKey = keyof FleetSettings;

export const defaultFleet: FleetSettings = Object.freeze(fleetSchema.parse({}));

const ofAFleet: readonly FleetKey[] = [
  ...(['engines', 'prefill', 'decode', 'blocks', 'mode', 'seed'] as const),
  ...(['store', 'storeFolder', 'storeEviction'] as const),
];

/** Whether a change needs a new fleet that starts at 0 s. All other settings change while the fleet runs. */
export function needsNewFleet(before: FleetSettings, now: FleetSettings): boolean {
  const keys: FleetKey[] = now.engines === 'real' ? [...ofAFleet] : [...ofAFleet, 'startUp', 'costs'];
  return keys.some((key) => before[key] !== now[key]);
}

/** The settings within the limits of the fleet, and a sentence for each one that was reduced. */
export function withinReach(settings: FleetSettings): { settings: FleetSettings; problems: string[] } {
  const reached: Record<keyof typeof REAL_MOST, number> = { ...settings };
  const problems: string[] = [];
  if (settings.engines === 'real')
    for (const key of Object.keys(REAL_MOST) as (keyof typeof REAL_MOST)[]) {
      const most = REAL_MOST[key];
      if (settings[key] <= most) continue;
      reached[key] = most;
      const why =
        most === 0
          ? 'real engines on this page have none'
          : `for real engines, which share one GPU, it is at most ${most}`;
      problems.push(`${key} is ${settings[key]}: ${why}.`);
    }
  if (reached.storeFolder > 0 && reached.store === 0) {
    reached.storeFolder = 0;
    problems.push(`storeFolder is ${settings.storeFolder}, but there is no store above it: set store too.`);
  }
  return { settings: { ...settings, ...reached }, problems };
}

/** Throws ConfigError for conversations that are too long for this fleet's engines. */
export function checkFleet(
  { engines, blocks }: Pick<FleetSettings, 'engines' | 'blocks'>,
  load: LiveLoadSettings,
): void {
  checkRoom(blocks, load);
  const { maxModelLen } = presetArchitecture(REAL_MODEL);
  if (engines === 'real' && longestOf(load) > maxModelLen)
    throw new ConfigError(
      `a conversation may reach ${longestOf(load)} tokens, and ${REAL_MODEL} takes at most ${maxModelLen}: set fewer turns, or shorter questions and answers`,
    );
}

export const loadOf = ({
  rate,
  turns,
  question,
  answer,
  system,
  think,
}: FleetSettings): LiveLoadSettings => ({
  ...{ rate, turns, question, answer, system },
  thinkMs: 1000 * think,
});

/** `here`: the costs measured on this page; null: none yet. */
export const liveOf = (settings: FleetSettings, here: CostsHere | null): LiveSettings => {
  const mostEngines = settings.engines === 'real' ? REAL_MOST.prefill : MOST_ENGINES;
  const { prefill, decode, blocks, mode, routing, autoscale, startUp, seed, costs } = settings;
  const { store, storeFolder: folderBlocks, storeEviction: eviction } = settings;
  const own = costs === MEASURED ? here : null;
  return {
    ...{ prefill, decode, blocks, mode, routing, autoscale, seed },
    store: store > 0 ? { blocks: store, folderBlocks, eviction } : null,
    ...{ costs: own?.costs ?? costs, kvBytesPerToken: own?.kvBytesPerToken ?? null },
    ...{ mostEngines, startMs: 1000 * startUp, load: loadOf(settings) },
  };
};

/** What the costs describe, and where they come from. */
export function costsInWords({ costs }: FleetSettings, here: CostsHere | null): string {
  if (costs === MEASURED)
    return here
      ? `${here.costs.name}, measured on this page (${here.costs.about}); each engine as if it had this computer to itself`
      : 'nothing has been measured on this page yet';
  const { about, source } = NAMED_COSTS[costs]!;
  return `${about} (${source})`;
}

export const comparedOf = ({ first, second, third }: FleetSettings): RoutingName[] => [
  ...new Set([first, second, third]),
];
