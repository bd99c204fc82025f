/** Measuring costs: what it refuses at once, how it ends when an engine fails or it is cancelled, and what it finds. */
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { plainFleet } from '../../src/fleet/seats.ts';
import type { Cluster, ClusterOptions, PolicyChange } from '../../src/fleet/types.ts';
import type { GenerateRequest } from '../../src/router/turn-types.ts';
import { CostMeter, LEAST_ROUNDS } from '../../src/simulate/costs/measure.ts';
import type { StepPlace, StepShape } from '../../src/simulate/costs/types.ts';
import { fleetOptions, simulated } from './simulated.ts';

const later = () => new Promise((resolve) => setTimeout(resolve, 0));
const never = new AbortController().signal;

const settingsOf = (numBlocks: number) => {
  const pool = { numBlocks };
  return {
    maxModelLen: 1024,
    blockSize: 16,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 512,
    prefill: pool,
    decode: pool,
  };
};

/** P and D that answer at once. `beside` is called for each request while both are at work. */
function fleet(beside: (role: string) => Promise<void> | null) {
  const asked = { prefill: 0, decode: 0 };
  let longAnswers = 0;
  const engine = (role: 'prefill' | 'decode') => ({
    role,
    async forgetPrefix() {},
    async submit(request: { sampling: { maxTokens: number }; promptTokenIds: readonly number[] }) {
      const { maxTokens } = request.sampling;
      asked[role]++;
      if (asked.prefill > 80) throw new Error('P was asked on and on');
      // D's long answers are measured alone first, twice, then together with P's prompts.
      const isLong = maxTokens > 16;
      if (isLong) longAnswers++;
      if (longAnswers > 2 && (isLong || request.promptTokenIds.length === 128)) await beside(role);
      await later();
      return (async function* () {
        for (let i = 0; i < maxTokens; i++)
          yield { output: { times: { arrivalMs: 0, queuedMs: 0 }, tokens: [0] }, atMs: i };
      })();
    },
  });
  const cluster = {
    settings: settingsOf(100),
    engines: [engine('prefill'), engine('decode')],
    ...{ info: { model: { vocabSize: 512 } }, mode: 'unidirectional' },
    configure: async () => {},
    endConversation: async () => {},
    async *generate() {
      yield { final: { ttftMs: 1, outputTokenIds: [], transfer: { pToD: null } } };
    },
  };
  return { cluster: cluster as unknown as Cluster, asked };
}

it('engines without room for the shortest answer are refused, with what to raise', () => {
  const meterOf = (numBlocks: number) => {
    const cluster = { settings: settingsOf(numBlocks), engines: [], info: { model: { vocabSize: 512 } } };
    return () => new CostMeter(cluster as unknown as Cluster, { seed: 1, signal: never });
  };
  expect(meterOf(4)).toThrow(ConfigError);
  expect(meterOf(4)).toThrow(/room for 48 tokens .* more than 56: raise --max-model-len \(1024\)/);
  expect(meterOf(5)).not.toThrow();
});

it('a fleet whose P and D take none of the prompts that are handed over is refused', () => {
  const bounds = (max: number | null, min = 0) => {
    const fleet = { ...plainFleet({ prefill: 1, decode: 1 }), rolesets: [{ name: 'all', min, max }] };
    const cluster = {
      settings: { ...settingsOf(100), fleet },
      ...{ engines: [], info: { model: { vocabSize: 512 } } },
    };
    return () => new CostMeter(cluster as unknown as Cluster, { seed: 1, signal: never });
  };
  expect(bounds(null, 800)).toThrow(ConfigError);
  expect(bounds(15)).toThrow(
    /hands prompts of 16, .* no P and D that take one of them: widen the promptTokens/,
  );
  expect(bounds(16)).not.toThrow();
});

it("a small pool of one engine limits what is measured, as its role's pools do", () => {
  const { seats, ...fleet } = plainFleet({ prefill: 1, decode: 2 });
  const small = seats.map((seat, i) => (i === 2 ? { ...seat, own: { numBlocks: 4 } } : seat));
  const cluster = {
    settings: { ...settingsOf(100), fleet: { ...fleet, seats: small } },
    ...{ engines: [], info: { model: { vocabSize: 512 } } },
  };
  const meter = () => new CostMeter(cluster as unknown as Cluster, { seed: 1, signal: never });
  expect(meter).toThrow('room for 48 tokens');
});

it('P gets no further requests once D has failed', async () => {
  const { cluster, asked } = fleet((role) => {
    if (role === 'decode') throw new Error('D is gone');
    return null;
  });
  await expect(new CostMeter(cluster, { seed: 1, signal: never }).round()).rejects.toThrow('D is gone');
  const before = asked.prefill;
  for (let i = 0; i < 200; i++) await later();
  expect(asked.prefill - before).toBeLessThanOrEqual(3);
});

it('the cluster serves as before after a round that failed', async () => {
  const { cluster } = fleet(() => Promise.reject(new Error('D is gone')));
  const changes: PolicyChange[] = [];
  const settings = { ...cluster.settings, handover: 'streamed' as const };
  const configure = async (change: PolicyChange) => void changes.push(change);
  const served = { ...cluster, settings, mode: 'bidirectional', configure } as unknown as Cluster;
  await expect(new CostMeter(served, { seed: 1, signal: never }).round()).rejects.toThrow('D is gone');
  expect(changes.map(({ mode, handover }) => [mode, handover])).toEqual([
    ['unidirectional', 'pull'],
    ['bidirectional', 'streamed'],
  ]);
});

it('a measurement that is cancelled while D answers ends for P too', async () => {
  const stop = new AbortController();
  const { cluster } = fleet((role) => {
    stop.abort(new Error('stopped'));
    return role === 'decode' ? new Promise(() => {}) : null;
  });
  await expect(new CostMeter(cluster, { seed: 1, signal: stop.signal }).round()).rejects.toThrow('stopped');
});

/** A meter after a warm-up and `rounds` rounds that count. */
async function measured(
  fleet: ReturnType<typeof simulated>,
  options: ReturnType<typeof fleetOptions>,
  rounds: number,
  more: Partial<Cluster> = {},
): Promise<CostMeter> {
  const cluster = {
    settings: options,
    engines: fleet.engines,
    info: { model: { name: 'numbers', vocabSize: 500 }, adapter: { name: 'none' }, startMs: 7 },
    mode: options.mode,
    configure: async () => {},
    generate: fleet.generate.bind(fleet),
    endConversation: fleet.endConversation.bind(fleet),
    ...more,
  } as unknown as Cluster;
  const meter = new CostMeter(cluster, { seed: 1, signal: never });
  const all = async () => {
    for (let round = 0; round <= rounds; round++) await meter.round();
  };
  await fleet.run(all());
  return meter;
}

it('READs are measured without a stream, a store or a policy, whatever the fleet serves with', async () => {
  const options = fleetOptions({ options: { maxModelLen: 1024 } });
  const connector = { ...options.connector, name: 'MultiConnector' as const };
  const store = { bytes: 1 } as ClusterOptions['store'];
  const fleet = simulated({ options }, { stepMs: () => 1 }, { runs: false });
  const changes: PolicyChange[] = [];
  const handedOver: (PolicyChange & Pick<GenerateRequest, 'routing'>)[] = [];
  await measured(fleet, { ...options, handover: 'streamed', connector, store: store! }, 0, {
    async configure(change) {
      changes.push(change);
    },
    generate(request) {
      handedOver.push({ ...Object.assign({}, ...changes), routing: request.routing });
      return fleet.generate(request) as ReturnType<Cluster['generate']>;
    },
  });
  const { handover, connector: alone, routing } = handedOver[0]!;
  expect({ handover, alone, routing }).toEqual({
    handover: 'pull',
    alone: { name: 'NixlConnector' },
    routing: 'round-robin',
  });
  for (const each of handedOver) expect(each).toMatchObject({ handover, connector: alone, routing });
  expect(changes.at(-1)).toMatchObject({ handover: 'streamed', connector: { name: 'MultiConnector' } });
});

it('one round measures half of the sizes, two rounds all, and each of them small batches of answers', async () => {
  const options = fleetOptions({ options: { maxModelLen: 1024 } });
  const after = async (rounds: number) => {
    const fleet = simulated({ options }, { stepMs: ({ decodes }) => 1 + decodes }, { runs: false });
    const { step } = (await measured(fleet, options, rounds)).costs().file;
    return { rows: step.ms_by_rows!.map(([rows]) => rows), decodes: step.ms_by_decodes };
  };
  const [one, two] = [await after(1), await after(2)];
  expect(two.rows).toEqual(expect.arrayContaining(one.rows));
  expect(two.rows.length - one.rows.length).toBe(Math.floor(two.rows.length / 2));
  expect(one.decodes!.slice(0, 3)).toEqual([2, 3, 4]);
  expect(two.decodes).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
});

it('two rounds are enough if there is room for only one prompt to hand over', async () => {
  const options = fleetOptions({ options: { maxModelLen: 62 } });
  const fleet = simulated({ options }, { readMs: () => 3 }, { runs: false });
  const { read } = (await measured(fleet, options, LEAST_ROUNDS)).costs().file;
  expect(read).toMatchObject({ fixed_ms: 3, ms_per_byte: 0 });
});

it("an engine's first prompt after others worked, which takes longer, is in no step's time", async () => {
  const options = fleetOptions({ options: { maxModelLen: 1024 } });
  let last = '';
  const stepMs = ({ prefills }: StepShape, { role }: StepPlace): number => {
    const comesAnew = last !== role && prefills > 0;
    last = role;
    return comesAnew ? 100 : 5;
  };
  const fleet = simulated({ options }, { stepMs }, { runs: false });
  const { step, decode_step } = (await measured(fleet, options, 2)).costs().file;
  for (const { ms_by_rows } of [step, decode_step!])
    for (const [, ms] of ms_by_rows!) expect(ms).toBeCloseTo(5, 5);
});

describe('the slowdown of engines by each other', () => {
  const speed = { prefill: { prefill: 0.6, decode: 0.8 }, decode: { prefill: 0.5, decode: 0.9 } };
  const options = fleetOptions({ prefill: 2, decode: 2, options: { maxModelLen: 1024 } });

  it.each([
    ['P takes longer', 1],
    ['D takes longer', 0.1],
  ])('is measured while all of them are at work, if %s', async (_what, msPerToken) => {
    const fleet = simulated(
      { options },
      {
        stepMs: ({ prefillTokens, decodes }) => 2 + msPerToken * prefillTokens + decodes,
        speeds: (role, { prefill, decode }, context) => {
          const beside = { prefill, decode, [role]: (role === 'prefill' ? prefill : decode) - 1 };
          const far = prefill + decode > 1 && context > 200 ? 0.9 : 1;
          return far * speed[role].prefill ** beside.prefill * speed[role].decode ** beside.decode;
        },
      },
      { runs: false },
    );
    const meter = await measured(fleet, options, 1);
    const prefill = [
      [1, 0.8, 0.64],
      [0.6, 0.48, 0.384],
    ];
    const decode = [
      [1, 0.5, 0.25],
      [0.9, 0.45, 0.225],
    ];
    const times = (rows: readonly number[][], factor: number) =>
      rows.map((row) => row.map((share) => (share === 1 ? 1 : expect.closeTo(factor * share, 2))));
    expect(meter.costs().file.speeds).toEqual({
      ...{ prefill: times(prefill, 1), decode: times(decode, 1) },
      far: { from: 64, to: 400, prefill: times(prefill, 0.9), decode: times(decode, 0.9) },
    });
  });
});

it('a READ takes longer while engines compute on a shared machine', async () => {
  const fleet = simulated(
    { options: fleetOptions({ options: { maxModelLen: 1024 } }) },
    { stepMs: () => 10, readMs: () => 3, readContentionMs: 4, speeds: () => 1, pieceMs: null },
    { runs: false },
  );
  const handOverMs = async (conversationId: string, maxTokens: number): Promise<number> => {
    const promptTokenIds = Array.from({ length: 40 }, (_, i) => i + 8 * conversationId.length);
    const sampling = { maxTokens, ignoreEos: true };
    for await (const { final } of fleet.generate({ conversationId, promptTokenIds, sampling }))
      if (final) return final.transfer.pToD!.ms;
    return Number.NaN;
  };
  const work = (async () => {
    const alone = await handOverMs('alone', 1);
    const decodes = handOverMs('decodes', 60);
    await fleet.clock.sleep(100);
    const beside = await handOverMs('comes', 1);
    await decodes;
    return { alone, beside };
  })();
  expect(await fleet.run(work)).toEqual({ alone: 3, beside: 3 + 4 });
});

it.each([0, 2])(
  'the time that a decoding request adds to a step with prompts is measured: %d ms',
  async (extraMs) => {
    const options = fleetOptions({ options: { maxModelLen: 1024 } });
    const stepMs = ({ decodes, prefills, prefillTokens }: StepShape): number => {
      const rows = decodes + prefillTokens;
      return prefills > 0 ? Math.max(5 + decodes, 3 + 0.5 * rows) + extraMs * decodes : 5 + decodes;
    };
    const fleet = simulated({ options }, { stepMs }, { runs: false });
    const { step, decode_step } = (await measured(fleet, options, 2)).costs().file;
    for (const { ms_per_decode_beside_prompts: ms } of [step, decode_step!])
      expect(ms).toBeCloseTo(extraMs, 1);
  },
);

it.each([
  [0, 0],
  [3, 3],
  [8, 2],
  [2, 6],
])(
  'the time that a READ takes from concurrent steps is measured: %d ms, and %d if P pulls',
  async (readFromStepsMs, pullFromStepsMs) => {
    const options = fleetOptions({ decode: 2, options: { maxModelLen: 1024 } });
    const fleet = simulated(
      { options },
      {
        stepMs: ({ decodes, prefillTokens }) => 4 + decodes + 0.3 * prefillTokens,
        ...{ readMs: () => 5, readContentionMs: 3, readFromStepsMs, pullFromStepsMs, pieceMs: 30 },
        // P slow D down, and D slow each other down.
        speeds: (_work, { prefill, decode }) => 1 / (1 + 0.2 * prefill + 0.1 * decode),
      },
      { runs: false, onSpan: () => {} },
    );
    const { read } = (await measured(fleet, options, 4)).costs().file;
    expect(Math.abs(read.from_steps_ms - readFromStepsMs)).toBeLessThan(0.5);
    expect(Math.abs(read.pull_from_steps_ms! - pullFromStepsMs)).toBeLessThan(0.5);
  },
);
