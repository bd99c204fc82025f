/** How many engines there are, how they are grouped, and what lies between which two: the settings, and the file of --fleet. */
import { z } from 'zod';
import { parsedJson } from './cluster-schema.ts';
import { oneOf, wholeNumber } from './fields.ts';

/**
 * AIBrix's two ways of placing a turn. replica: P and D of one roleset, of those that have one of each alive. pooled: any P
 * with any D.
 */
export const PLACEMENTS = ['pooled', 'replica'] as const;
export type PlacementMode = (typeof PLACEMENTS)[number];

const count = (wanted: string, min: number) => z.number({ error: wanted }).int(wanted).min(min, wanted);
const word = (wanted: string) => z.string({ error: wanted }).min(1, wanted);
const link = () => word('a link as --link takes it, such as 100gbe or 10e6,1ms');

/** What one engine has of its own; left out: as --p-blocks, --d-blocks and --prefix-caching say. */
const oneEngine = z.strictObject({
  blocks: count('a whole number of blocks, 2 or more (one is the null block)', 2).optional(),
  prefixCaching: z.boolean({ error: 'true or false' }).optional(),
  /** Where it stands: what is on one node is joined by `sameNode`, the rest by `acrossNodes`. */
  node: word("a node's name").optional(),
});
export type FleetEngine = z.infer<typeof oneEngine>;

/** Of one role: each is a thread and a device. */
const MOST_ENGINES = 64;

const wantedEngines = `a number of engines up to ${MOST_ENGINES}, or a list with an object each, such as [{"blocks": 64}]`;

/** A number stands for so many engines without anything of their own. */
const engines = () =>
  z
    .preprocess(
      (given) =>
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
  /** AIBrix's combined: each takes whole turns where no roleset can. */
  both: engines(),
  /** Where its engines stand that do not say otherwise. */
  node: word("a node's name").optional(),
  /** Prompts that it takes, both bounds included; `max` 0: however long. */
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
      .min(1, 'one roleset at least'),
    /** Between engines whose nodes are told. Left out: --link. */
    sameNode: link().optional(),
    acrossNodes: link().optional(),
    /** Of single pairs, by the engines' names; they win over all else. */
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

const engineCount = () =>
  wholeNumber(`a whole number of engines from 1 to ${MOST_ENGINES}`, { min: 1, max: MOST_ENGINES }).default(
    1,
  );

export const fleet = {
  prefill: engineCount().meta({
    description: 'Prefill engines, each in a thread with a device of its own.',
    value: 'N',
  }),
  decode: engineCount().meta({
    description: 'Decode engines, each in a thread with a device of its own.',
    value: 'N',
  }),
  fleet: z.preprocess(parsedJson, fleetFileSchema.nullable()).default(null).meta({
    description:
      'A JSON file of rolesets, in place of --prefill and --decode: pools, nodes and links of single engines, engines that do both (docs/fleet.md).',
    value: 'FILE',
  }),
  modeOfFleet: oneOf(PLACEMENTS).default('pooled').meta({
    description: "pooled: any P with any D. replica: both of one roleset, as AIBrix's replica mode.",
    value: 'pooled|replica',
  }),
};

/** What an object at this place of a fleet file may have, for messages. */
export function fleetFields(path: readonly PropertyKey[]): readonly string[] {
  const [first, , third, fourth] = path;
  if (first === undefined) return Object.keys(fleetFileSchema.shape);
  if (first === 'links') return ['between', 'link'];
  if (third === 'promptTokens') return ['min', 'max'];
  return Object.keys(fourth === undefined ? roleset.shape : oneEngine.shape);
}
