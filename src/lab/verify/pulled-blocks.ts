/**
 * Check (c): drives P and D step by step, as the router does, for two turns, and reads both pools. The blocks that P pulled
 * must equal D's, byte for byte, and those that P computes from the same token ids. They must match the oracle's KV within a
 * tolerance.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RunConfig } from '../../config/run.ts';
import { InternalError } from '../../errors.ts';
import { EngineCluster } from '../../fleet/cluster.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import { plural } from '../../measure/format.ts';
import { type KvGroups, kvGroups } from '../../model/architecture/kv-groups.ts';
import type { Platform } from '../../platform/types.ts';
import { seededGenerator } from '../../seeded.ts';
import { sum, sumOf } from '../../sum.ts';
import { type KvLayout, kvLayout } from './kv-layout.ts';
import { oracleFor } from './kv-oracle.ts';
import { type PulledTurns, twoTurns } from './two-turns.ts';
import type { Check, CheckEnvironment, CheckProvider, CheckResult } from './types.ts';

/** Token counts of a conversation. P's second prompt is the first one, D's answer and the added tokens. */
interface Lengths {
  prompt: number;
  output: number;
  added: number;
}

interface Trial {
  name: string;
  settings: Partial<RunConfig> & Pick<RunConfig, 'blockSize' | 'kvDtype'>;
}

const TRIALS: readonly Trial[] = [
  {
    name: 'blocks of 16, f16 KV, P keeps nothing',
    settings: { blockSize: 16, kvDtype: 'f16', prefixCaching: false },
  },
  {
    name: "blocks of 8, f32 KV, P's cache on",
    settings: { blockSize: 8, kvDtype: 'f32', prefixCaching: true },
  },
];

/**
 * Allowed |difference| / max(1, |value|) of a key or value from the oracle's. f16 KV rounds the keys and the values that each
 * layer reads back, by about 2^-11 each. Random errors add up as the root of their number. Times five, for the worst of many
 * values.
 */
const kvTolerance = (numLayers: number, kvDtype: 'f16' | 'f32'): number =>
  kvDtype === 'f32' ? 1e-4 : 5 * Math.sqrt(2 * numLayers) * 2 ** -11;
/**
 * Additional tolerance for products in f16, if keys and values are at most `largest`. Each layer has five products (q, k and v;
 * o; gate; up; down), each with a random error of about 2^-11 of its result. Random errors add up as the root of their number.
 * Times five, for the worst of many values.
 */
export const productTolerance = (numLayers: number, largest: number): number =>
  5 * Math.sqrt(5 * numLayers) * 2 ** -11 * largest;

export function pulledBlockChecks(platform: Platform): CheckProvider {
  return async (environment) => TRIALS.map((trial) => check(platform, environment, trial));
}

/** Tokens. */
const LONGEST_WINDOW = 1024;

function check(platform: Platform, environment: CheckEnvironment, { name, settings }: Trial): Check {
  const { backend, config, software } = environment;
  return {
    group: 'c',
    name,
    async run(say, signal) {
      const architecture = await backend.architecture(config.model);
      const { blockSize, kvDtype } = settings;
      const groups = kvGroups(architecture);
      const lengths = [...conversations(blockSize, config.seed), ...beyondWindows(groups)];
      const tokens = lengths.map(({ prompt, output, added }) => prompt + output + added);
      say('the oracle');
      const oracle = await oracleFor(platform, config, kvDtype, sum(tokens));
      signal.throwIfAborted();
      say('starting engines');
      const cluster = await backend.startCluster({
        ...clusterOptions({ ...config, ...FIXED, ...settings }, architecture, software),
        // The last sampled token is not computed, but P samples one more.
        maxModelLen: Math.max(...tokens) + 1,
        mode: 'bidirectional',
        checksum: true,
        poison: true,
      });
      try {
        if (!(cluster instanceof EngineCluster))
          throw new InternalError('this cluster does not allow its engines to be driven separately');
        const layout = kvLayout(architecture, blockSize, kvDtype);
        const served: PulledTurns[] = [];
        for (const [index, { prompt, output, added }] of lengths.entries()) {
          signal.throwIfAborted();
          say(`conversation ${index + 1} of ${lengths.length}`);
          const ids = randomIds(prompt + added, architecture.vocabSize, config.seed + index);
          const turns = await twoTurns(cluster, layout, groups, {
            id: `pulled-${index + 1}`,
            promptTokenIds: ids.slice(0, prompt),
            outputTokens: output,
            addedTokenIds: ids.slice(prompt),
          });
          oracle.compare(layout, turns.promptTokenIds, turns.pulledBlocks);
          served.push(turns);
        }
        await end(cluster);
        const halves = cluster.info.adapter.arithmetic === 'f16';
        const tolerance =
          kvTolerance(layout.numLayers, kvDtype) +
          (halves ? productTolerance(layout.numLayers, oracle.largest) : 0);
        return judge(layout, served, oracle, tolerance);
      } finally {
        await cluster.close();
      }
    },
  };
}

/** Settings that the user's configuration cannot change here. */
const FIXED = {
  threshold: 0,
  tokenCheck: true,
  loadFailurePolicy: 'fail',
  link: null,
  pBlocks: null,
  dBlocks: null,
  maxModelLen: null,
} as const satisfies Partial<RunConfig>;

/** Lengths with whole and partial blocks, for D's hold and for the next prompt, and one below a block. */
function conversations(blockSize: number, seed: number): Lengths[] {
  const random = seededGenerator(seed);
  const between = (from: number, to: number): number => uniformInt(random, from, to);
  return [
    { prompt: 2 * blockSize, output: blockSize + 1, added: 5 },
    { prompt: blockSize + 3, output: blockSize - 3, added: blockSize },
    { prompt: 3, output: 3, added: between(1, 3) },
    { prompt: between(1, 40), output: between(2, 20), added: between(1, 40) },
  ];
}

/** If layers have windows: a length beyond the longest that is at most LONGEST_WINDOW, since float64 takes long. */
function beyondWindows({ groups }: KvGroups): Lengths[] {
  const windows = groups.flatMap(({ spec }) => (spec.kind === 'sliding' ? [spec.window] : []));
  const window = Math.max(0, ...windows.filter((one) => one <= LONGEST_WINDOW));
  return window === 0 ? [] : [{ prompt: window + 30, output: 20, added: 11 }];
}

function randomIds(count: number, vocabSize: number, seed: number): number[] {
  const random = seededGenerator(seed);
  return Array.from({ length: count }, () => uniformInt(random, 0, vocabSize - 1));
}

/** Releases everything. Throws InternalError if blocks are still held or in use, or the accounting is wrong. */
async function end(cluster: EngineCluster): Promise<void> {
  for (const role of ['prefill', 'decode'] as const) {
    const engine = cluster.engine(role);
    await engine.serving.releaseHolds('all');
    await engine.serving.drain();
  }
  await cluster.checkIntegrity();
  const busy = (await cluster.stats()).find(({ heldRequests, usedBlocks }) => heldRequests + usedBlocks > 0);
  if (busy)
    throw new InternalError(
      `${busy.engineId} still uses ${busy.usedBlocks} blocks after everything was released`,
    );
}

function judge(
  layout: KvLayout,
  served: readonly PulledTurns[],
  oracle: Awaited<ReturnType<typeof oracleFor>>,
  tolerance: number,
): CheckResult {
  const failure = served.flatMap(({ failures }, i) =>
    failures.map((why) => `conversation ${i + 1}: ${why}`),
  )[0];
  const pulledBlocks = plural(
    sumOf(served, (t) => t.pulledBlockCount),
    'block',
  );
  const moved =
    `${plural(served.length, 'conversation')}, ${sumOf(served, (t) => t.pulledTokens)} tokens pulled in ` +
    `${pulledBlocks} of ${layout.blockSize} (${sumOf(served, (t) => t.hitTokens)} tokens hit)`;
  const { worst, layers } = oracle;
  const against = `${worst.toExponential(1)} from the oracle in ${layers} (at most ${Number(tolerance.toPrecision(2))})`;
  if (failure) return { ok: false, detail: `${failure} (${moved})` };
  if (!(worst <= tolerance)) return { ok: false, detail: `up to ${against} (${moved})` };
  return { ok: true, detail: `${moved}: equal to D's bytes and to a recompute; up to ${against}` };
}
