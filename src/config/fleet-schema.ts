/** Number and grouping of engines and the links between them: the settings, and the --fleet file. */
import { z } from 'zod';
import { parsedJson } from './cluster-schema.ts';
import { oneOf, wholeNumber } from './fields.ts';

/**
 * AIBrix's two ways of placing a turn. replica: P and D come from the same roleset, one that has both alive. pooled: any P
 * with any D.
 */
export const PLACEMENTS = ['pooled', 'replica'] as const;
export type PlacementMode = (typeof PLACEMENTS)[number];

const count = (wanted: string, min: number) => z.number({ error: wanted }).int(wanted).min(min, wanted);
const word = (wanted: string) => z.string({ error: wanted }).min(1, wanted);
const link = () => word('a link as --link takes it, such as 100gbe or 10e6,1ms');

/** Settings of one engine. Defaults: --p-blocks, --d-blocks and --prefix-caching. */
const oneEngine = z.strictObject({
  blocks: count('a whole number of blocks, 2 or more (one is the null block)', 2).optional(),
  prefixCaching: z.boolean({ error: 'true or false' }).optional(),
  /** Engines on one node are connected by `sameNode`, others by `acrossNodes`. */
  node: word("a node's name").optional(),
});
export type FleetEngine = z.infer<typeof oneEngine>;

/** Of a role in a roleset. */
export const MOST_ENGINES = 1024;
/** Of a role where engines are real, since each is a thread with a device. Autoscalers and plans go up to it too. */
export const MOST_REAL_ENGINES = 64;

const wantedEngines = `a number of engines up to ${MOST_ENGINES}, or a list with an object each, such as [{"blocks": 64}]`;

/** A list of engines. A number stands for that many engines with default settings. */
const engines = () =>
  z
    .preprocess(
      (given: number | z.input<typeof oneEngine>[]) =>
        typeof given === 'number' && Number.isInteger(given) && given >= 0 && given <= MOST_ENGINES
          ? Array.from({ length: given }, () => ({}))
          : given,
      z.array(oneEngine, { error: wantedEngines }).max(MOST_ENGINES, wantedEngines),
    )
    .default([]);

const roleset = z.strictObject({
  name: word("a roleset's name").optional(),
  prefill: engines(),
  decode: engines(),
  /** AIBrix's combined engines: each serves whole turns when no roleset can. */
  both: engines(),
  /** Default node of its engines. */
  node: word("a node's name").optional(),
  /** Prompt lengths that it accepts, bounds included; `max` 0: no upper bound. */
  promptTokens: z
    .strictObject({
      min: count('a whole number of tokens, 0 or more', 0).default(0),
      max: count('a whole number of tokens, 0 or more (0: no bound)', 0).default(0),
    })
    .optional(),
});

const wantedFleet = 'an object with rolesets, such as {"rolesets": [{"prefill": 2, "decode": 1}]}';

export const fleetFileSchema = z.strictObject(
  {
    rolesets: z
      .array(roleset, { error: 'a list of rolesets, such as [{"prefill": 2, "decode": 1}]' })
      .min(1, 'at least one roleset'),
    /** Links between engines whose nodes are given. Default: --link. */
    sameNode: link().optional(),
    acrossNodes: link().optional(),
    /** Links of single pairs, by engine name; they override everything else. */
    links: z
      .array(
        z.strictObject({
          between: z.tuple([word("an engine's name"), word("an engine's name")], {
            error: 'two engines\' names, such as ["prefill-0", "decode-1"]',
          }),
          link: link(),
        }),
      )
      .default([]),
  },
  { error: wantedFleet },
);
export type FleetFile = z.infer<typeof fleetFileSchema>;
/** As users write it, without the defaults. */
export type FleetFileInput = z.input<typeof fleetFileSchema>;

const engineCount = () =>
  wholeNumber(`a whole number of engines from 1 to ${MOST_ENGINES}`, { min: 1, max: MOST_ENGINES }).default(
    1,
  );

export const fleet = {
  prefill: engineCount().meta({
    description: 'Number of prefill engines. A real one runs in its own thread with its own device.',
    value: 'N',
  }),
  decode: engineCount().meta({
    description: 'Number of decode engines. A real one runs in its own thread with its own device.',
    value: 'N',
  }),
  fleet: z.preprocess(parsedJson, fleetFileSchema.nullable()).default(null).meta({
    description:
      'A JSON file of rolesets that replaces --prefill and --decode. Sets pools, nodes and links per engine, and engines that do both (docs/fleet.md).',
    value: 'FILE',
  }),
  modeOfFleet: oneOf(PLACEMENTS).default('pooled').meta({
    description:
      "pooled: any P with any D. replica: P and D from the same roleset, as in AIBrix's replica mode.",
    value: 'pooled|replica',
  }),
};

/** Fields allowed at this path of a fleet file, for messages. */
export function fleetFields(path: readonly PropertyKey[]): readonly string[] {
  const [first, , third, fourth] = path;
  if (first === undefined) return Object.keys(fleetFileSchema.shape);
  if (first === 'links') return ['between', 'link'];
  if (third === 'promptTokens') return ['min', 'max'];
  return Object.keys(fourth === undefined ? roleset.shape : oneEngine.shape);
}
