/** The cost measurement for simulated fleets, checked on simulated engines with known times. */
import { expect, test } from 'vitest';
import { costsHere, measureCosts } from '../../../demo/src/session/experiments/costs.ts';
import type { Measuring } from '../../../demo/src/session/experiments/measuring.ts';
import { defaultSettings } from '../../../demo/src/session/settings.ts';
import type { Cluster } from '../../../src/fleet/types.ts';
import { linearCosts } from '../../../src/simulate/costs/linear.ts';
import { CostMeter } from '../../../src/simulate/costs/measure.ts';
import { noCosts } from '../../../src/simulate/costs/published.ts';
import { fleetOptions, simulated } from '../../simulate/simulated.ts';

/** D's milliseconds by number of decoding rows, in addition to the fixed time of a step: two rows take as long as four. */
const DECODE_MS = [0, 1, 5, 5, 5, 7, 7, 7, 7];

test('measured costs give the step and READ times of each role, and the slow-down when both work', async () => {
  const step = { prefillTokens: 0, prefills: 0, prefillContext: 0, decodes: 0, decodeContext: 0 };
  const options = fleetOptions({ options: { maxModelLen: 1024 } });
  const fleet = simulated(
    { options },
    {
      // D prefills at half the speed, and its steps begin sooner.
      stepMs: ({ prefillTokens, decodes }, { role }) =>
        role === 'prefill'
          ? 4 + 0.05 * prefillTokens + 0.5 * decodes
          : 1 + 0.1 * prefillTokens + (DECODE_MS[decodes] ?? 0),
      submitMs: 0.4,
      readMs: (bytes) => (bytes > 0 ? 2 + bytes / 1e6 : 0),
      // Engines that work at the same time slow each other down.
      speeds: (role, { prefill, decode }) => {
        if (prefill + decode === 1) return 1;
        return role === 'prefill' ? 0.5 : 0.8;
      },
    },
    { runs: false },
  );
  const cluster = {
    settings: options,
    engines: fleet.engines,
    info: {
      model: { name: 'numbers', vocabSize: 500, kvBytesPerToken: 1000 },
      adapter: { name: 'none' },
      startMs: 7,
    },
    mode: options.mode,
    configure: async () => {},
    generate: fleet.generate.bind(fleet),
    endConversation: fleet.endConversation.bind(fleet),
  };
  const measuring = { engines: { running: { cluster } }, settings: defaultSettings };
  const { signal } = new AbortController();
  const told: unknown[] = [];
  const tools = { signal, emit: (event: unknown) => told.push(event), now: () => 0 };
  await fleet.run(measureCosts({ ...measuring, ...tools } as unknown as Measuring));
  expect(told).toMatchObject([0, 0.25, 0.5, 0.75].map((progress) => ({ phase: 'busy', progress })));
  const { costs: file, kvBytesPerToken } = costsHere.value!;
  expect(file).toMatchObject({ source: 'measured', speeds: null, start_ms: 7 });
  expect(kvBytesPerToken).toBe(1000);
  const costs = { ...noCosts, ...linearCosts(file) };
  const place = { poolUsed: 0, maxNumSeqs: 1 };
  const [onP, onD] = (['prefill', 'decode'] as const).map((role) => ({
    prefill: costs.stepMs({ ...step, prefills: 1, prefillTokens: 400 }, { ...place, role }),
    decodes: [1, 2, 4, 5, 8].map((decodes) =>
      costs.stepMs({ ...step, decodes, decodeContext: 100 * decodes }, { ...place, role }),
    ),
  }));
  const near = (values: readonly number[]) => values.map((value) => expect.closeTo(value, 1));
  expect(onP!.prefill).toBeCloseTo(24, 0);
  expect(onP!.decodes).toEqual(near([4.5, 5, 6, 6.5, 8]));
  expect(onD!.prefill).toBeCloseTo(41, 0);
  expect(onD!.decodes).toEqual(near([2, 6, 6, 8, 8]));
  expect(costs.readMs(3_000_000, 0)).toBeCloseTo(5, 0);

  const meter = new CostMeter(cluster as unknown as Cluster, { seed: 1, signal });
  await fleet.run(meter.round().then(() => meter.round()));
  const { speeds, submit_ms } = meter.costs().file;
  expect(submit_ms).toBeCloseTo(0.4);
  const alike = {
    prefill: [[1, expect.closeTo(0.5, 1)]],
    decode: [[1, expect.closeTo(0.8, 1)]],
  };
  // For any number of preceding tokens.
  expect(speeds).toEqual({ ...alike, far: { from: 64, to: 400, ...alike } });
});
