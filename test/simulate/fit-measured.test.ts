/** Costs fitted to measurements: stairs stay stairs, and what several steps take beyond them is the cost of context. */
import { describe, expect, it } from 'vitest';
import type { Cluster } from '../../src/fleet/types.ts';
import { fitted, type Point } from '../../src/simulate/costs/fit-measured.ts';
import { linearCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { decodeShape, prefillSteps } from '../../src/simulate/costs/shapes.ts';
import { type LinkSpec, parseLink } from '../../src/transport/link.ts';

const TILE = 32;
const BATCH = 256;
/** Milliseconds for a row and a token before it. */
const CONTEXT = 1e-3;
const tileMs = (rows: number): number => 10 + 20 * Math.ceil(rows / TILE);
const read = (start: number, rows: number): number => CONTEXT * rows * (start + (rows - 1) / 2);

/** A machine whose kernels take rows in tiles. */
function machineMs(tokens: number): number {
  let ms = 0;
  for (let start = 0; start < tokens; start += BATCH) {
    const rows = Math.min(BATCH, tokens - start);
    ms += tileMs(rows) + read(start, rows);
  }
  return ms;
}

const cluster = {
  info: { model: { name: 'tiny' }, adapter: { name: 'lavapipe' }, startMs: 1 },
  settings: { model: 'tiny', maxNumBatchedTokens: BATCH, link: null, prefill: {}, decode: {} },
  engines: [],
} as unknown as Cluster;

const prompt = (tokens: number): Point => {
  const steps = prefillSteps(tokens, BATCH);
  return {
    what: `prefill of ${tokens} on P`,
    role: 'prefill',
    steps,
    ms: [machineMs(tokens)],
    stretchesMs: [],
  };
};

/** A prefill after `found` cached tokens, each of which costs `times` as much as one of its own. */
const after = (found: number, rows: number, times: number): Point => {
  const steps = prefillSteps(found + rows, BATCH, found);
  const ms = [tileMs(rows) + read(0, rows) + times * CONTEXT * rows * found];
  return { what: `prefill of ${rows} after ${found} on P`, role: 'prefill', steps, ms, stretchesMs: [] };
};

function stepsOf(
  prompts: readonly number[],
  more: readonly Point[] = [],
  { firstMs = 8, ...others }: { firstMs?: number; [key: string]: unknown } = {},
  measured = cluster,
) {
  const decodes: Point = {
    what: '1 decode',
    role: 'prefill',
    steps: [decodeShape(1, 24)],
    ms: [firstMs],
    stretchesMs: [[8]],
  };
  const measurements = {
    ...{
      submitMs: [0],
      concurrent: [{ engines: [{ engineId: 'p', role: 'prefill' as const, near: [1], far: [] }] }],
    },
    overlappingReads: { reads: [], steps: [], decodes: [] },
    handovers: [8, 16, 32].map((bytes) => ({ routerMs: 5, readMs: 1, aroundMs: 0, bytes })),
    ...others,
  };
  return fitted(measured, [...prompts.map(prompt), decodes, ...more], measurements);
}

it('says so if READs were measured over a modelled link', () => {
  const over = (link: LinkSpec | null) => ({ ...cluster, settings: { ...cluster.settings, link } });
  expect(stepsOf([8, 16, 32]).file.about).not.toContain('link');
  const { file, link } = stepsOf([8, 16, 32], [], {}, over(parseLink('1gbe')) as Cluster);
  expect(file.about).toContain('READs over 1gbe, a modelled link');
  expect(link).toBe('1gbe');
});

describe('fitted decode steps', () => {
  const point = (decodes: number, context: number, ms: readonly number[]): Point => ({
    what: `${decodes} decode at ${context}`,
    role: 'prefill',
    steps: [decodeShape(decodes, context)],
    ms: [...ms],
    stretchesMs: [],
  });

  it('have a time for each number of requests, and one cost of context from all points', () => {
    const ms = { 1: 8, 2: 12, 3: 20 };
    const at = (decodes: 1 | 2 | 3, context: number) =>
      point(decodes, context, [ms[decodes] + 1e-2 * decodes * context]);
    const { file } = stepsOf([8, 16, 32], [at(1, 384), at(2, 24), at(2, 384), at(3, 24)], {
      firstMs: 8 + 0.24,
    });
    expect(file.step.ms_per_decode_context).toBeCloseTo(1e-2, 9);
    for (const [i, expected] of Object.values(ms).entries())
      expect(file.step.ms_by_decodes![i]).toBeCloseTo(expected, 6);
  });

  it('weight each point by its number of samples', () => {
    const { file } = stepsOf([8, 16, 32], [point(1, 24, [12, 12, 12])], { firstMs: 8 });
    expect(file.step.ms_by_decodes).toEqual([11]);
  });
});

describe('fitted steps with prompts', () => {
  const { file, worst } = stepsOf([8, 16, 32, 33, 64, 65, 96, 128, 256, 384, 768]);
  const costs = linearCosts(file);
  const place = { role: 'prefill' as const, poolUsed: 0, maxNumSeqs: 1 };
  const msOf = (tokens: number) =>
    prefillSteps(tokens, BATCH).reduce((sum, shape) => sum + costs.stepMs(shape, place), 0);

  it('take the measured times, stair by stair and over several steps', () => {
    expect(file.step.ms_per_prefill_context).toBeCloseTo(CONTEXT, 9);
    expect(worst.error).toBeCloseTo(0, 6);
    for (const tokens of [16, 32, 33, 40, 64, 65, 80, 256, 384, 768])
      expect(msOf(tokens)).toBeCloseTo(machineMs(tokens), 6);
  });

  it('include the cost of reading a cached prefix', () => {
    const [shape] = prefillSteps(40, BATCH);
    const found = { ...shape!, prefillContext: shape!.prefillContext + 40 * 500 };
    expect(costs.stepMs(found, place)).toBeCloseTo(tileMs(40) + read(500, 40), 6);
  });
});

it('the cost of context is fitted to prompts with a cached prefix, not to those of several steps', () => {
  const { file } = stepsOf([8, 16, 32, 64, 256, 768], [after(256, 8, 3), after(448, 32, 3)]);
  expect(file.step.ms_per_prefill_context).toBeGreaterThan(2.8 * CONTEXT);
  expect(file.step.ms_per_prefill_context).toBeLessThan(3.2 * CONTEXT);
});

it('long steps vary as measured long steps do, and short ones as short ones do', () => {
  const single = (point: Point, shares: readonly number[]): Point => ({
    ...point,
    stretchesMs: shares.map((share) => [share * point.ms[0]!]),
  });
  const { file } = stepsOf([16], [single(prompt(32), [0.5, 1, 3]), single(prompt(256), [0.9, 1, 1.1])]);
  const { varies } = linearCosts(file);
  const shape = { decodes: 0, decodeContext: 0, prefills: 1, prefillTokens: 64, prefillContext: 0 };
  expect(Math.max(...varies!(shape).flat())).toBeGreaterThan(2);
  expect(Math.max(...varies!({ ...shape, decodes: 1 }).flat())).toBeLessThan(1.2);
  expect(varies!({ ...shape, prefills: 0, prefillTokens: 0, decodes: 2 })).toEqual(Array(40).fill([1]));
});

describe('fitted times between steps', () => {
  const handOver = { routerMs: 1.4, aroundMs: 0.5 };
  const { file } = stepsOf([8, 16, 32], [], {
    submitMs: [0.2],
    handovers: [1e6, 2e6].map((bytes) => ({ ...handOver, readMs: 1 + bytes / 1e6, bytes })),
    overlappingReads: {
      reads: [4.5, 5, 20].map((readMs) => ({ readMs, bytes: 1e6, stepMs: 4 })),
      steps: [],
      decodes: [],
    },
  });

  it("halve the router's work between a turn's two requests, and count a reply as one message", () => {
    expect(file.submit_ms).toBeCloseTo(0.2 + (1.4 - 3 * 0.2) / 2);
    expect(file.reply_ms).toBe(0.2);
  });

  it("include in a READ its reader's own work, and its delay by steps less half a step of waiting", () => {
    expect(file.read.fixed_ms).toBeCloseTo(1 + 0.5);
    expect(file.read.ms_per_byte).toBeCloseTo(1e-6);
    expect(file.read.beside_ms).toBeCloseTo(5 - 2 - 4 / 2);
  });
});

it('READs vary as the measured ones do, relative to the fit', () => {
  const readMs = [1, 1, 1, 1, 1, 1, 1, 1, 1, 4];
  const { file } = stepsOf([8, 16, 32], [], {
    handovers: readMs.flatMap((ms) =>
      [1e6, 2e6].map((bytes) => ({ routerMs: 1, aroundMs: 0, readMs: ms, bytes })),
    ),
  });
  const reads = linearCosts(file).readVaries!;
  expect(reads).toHaveLength(40);
  expect(Math.max(...reads) / reads[0]!).toBeCloseTo(4);
  expect(reads.filter((share) => share > 2 * reads[0]!)).toHaveLength(4);
});

describe('ms_by_rows of a file', () => {
  const file = (step: object) => ({ kvferry_simulation_costs: 1, name: 'mine', source: 'assumed', step });
  const points = [
    [16, 10],
    [32, 20],
  ];
  const shape = { decodes: 0, decodeContext: 0, prefills: 1, prefillTokens: 0, prefillContext: 0 };
  const place = { role: 'prefill' as const, poolUsed: 0, maxNumSeqs: 1 };
  const { stepMs } = linearCosts(
    simulationCostsSchema.parse(
      file({ ms_by_rows: points, ms_per_prefill_token: 2, ms_by_decodes: [4, 15] }),
    ),
  );

  it.each([
    [8, 0, 10],
    [24, 0, 15],
    [23, 1, 15],
    [40, 0, 36],
    [4, 2, 15],
  ])('makes %i prompt rows with %i decoding rows take %d ms', (prefillTokens, decodes, ms) => {
    expect(stepMs({ ...shape, prefillTokens, decodes }, place)).toBe(ms);
  });

  it('is refused if its numbers of rows do not grow', () => {
    const wrong = simulationCostsSchema.safeParse(file({ ms_by_rows: points.toReversed() }));
    expect(wrong.error?.issues[0]?.message).toBe('numbers of rows must grow');
  });
});

describe('speeds on a shared machine', () => {
  const engine = (role: 'prefill' | 'decode', i: number, ms: number) => {
    return { engineId: `${role} ${i}`, role, near: [ms, ms, 9 * ms], far: [] };
  };
  const groups = [
    [engine('prefill', 1, 100)],
    [engine('prefill', 2, 120)],
    [engine('decode', 1, 10)],
    [engine('decode', 2, 10)],
    [engine('decode', 1, 20), engine('prefill', 1, 125)],
    [engine('decode', 1, 11), engine('decode', 2, 9)],
    [engine('prefill', 1, 200), engine('prefill', 2, 240)],
    [engine('prefill', 1, 100), engine('decode', 1, 40), engine('decode', 2, 40)],
  ];
  const point = { what: '1 decode', steps: [decodeShape(1, 24)], ms: [8], stretchesMs: [[8]] };
  const prompts = [8, 16, 32].map(prompt);
  const points = [
    ...[{ ...point, role: 'prefill' as const }, ...prompts],
    ...[point, ...prompts].map((one) => ({ ...one, role: 'decode' as const })),
  ];
  const { file } = fitted(cluster, points, {
    submitMs: [0],
    concurrent: groups.map((engines) => ({ engines })),
    handovers: [8, 16].map((bytes) => ({ routerMs: 5, readMs: 1, aroundMs: 0, bytes })),
    overlappingReads: { reads: [], steps: [], decodes: [] },
  });

  it('are fitted by the role of the other engines: D with D is not D with P', () => {
    expect(file.speeds).toEqual({
      prefill: [[1, 0.8, 1], [0.5]],
      decode: [
        [1, 0.5],
        [1, 0.25],
      ],
      far: null,
    });
  });

  it('of more engines than were measured share what the last number gives', () => {
    const { speeds } = linearCosts(file);
    expect(speeds!('decode', { prefill: 0, decode: 1 }, 0)).toBe(1);
    expect(speeds!('decode', { prefill: 1, decode: 1 }, 0)).toBe(0.5);
    expect(speeds!('decode', { prefill: 1, decode: 2 }, 0)).toBe(0.25);
    expect(speeds!('decode', { prefill: 2, decode: 4 }, 0)).toBeCloseTo((0.25 * 3) / 6);
    expect(speeds!('prefill', { prefill: 1, decode: 4 }, 0)).toBeCloseTo((1 * 3) / 5);
    expect(speeds!('decode', { prefill: 1, decode: 1 }, 1000)).toBe(0.5);
    const byNumber = linearCosts(
      simulationCostsSchema.parse({
        ...{ kvferry_simulation_costs: 1, name: 'mine', source: 'assumed', step: {} },
        speeds: [1, 0.6],
      }),
    );
    expect(byNumber.speeds!('decode', { prefill: 1, decode: 1 }, 0)).toBe(0.6);
    expect(byNumber.speeds!('prefill', { prefill: 2, decode: 2 }, 0)).toBeCloseTo(0.3);
  });

  it('are separate for rows with a long context, and interpolated in between', () => {
    const far = { from: 50, to: 150, prefill: [[1, 0.4]], decode: [[1, 0.7]] };
    const { speeds } = linearCosts({ ...file, speeds: { prefill: [[1, 0.8]], decode: [[1, 0.5]], far } });
    const both = { prefill: 1, decode: 1 };
    for (const [context, speed] of [
      [0, 0.8],
      [50, 0.8],
      [100, 0.6],
      [150, 0.4],
      [9000, 0.4],
    ] as const)
      expect(speeds!('prefill', both, context)).toBeCloseTo(speed);
    expect(speeds!('decode', both, 100)).toBeCloseTo(0.6);
    const wrong = simulationCostsSchema.safeParse({
      ...file,
      speeds: { prefill: [[1]], decode: [[1]], far: { ...far, to: 50 } },
    });
    expect(wrong.success).toBe(false);
  });
});
