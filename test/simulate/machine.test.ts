import { expect, it } from 'vitest';
import { VirtualClock } from '../../src/simulate/clock.ts';
import { linearCosts, parseSimulationCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { drawnReads, drawnTimes, Machine } from '../../src/simulate/machine.ts';
import { simulated } from './simulated.ts';

const DECODE = { decodes: 1, decodeContext: 0, prefills: 0, prefillTokens: 0, prefillContext: 0 };
const PROMPT = { decodes: 0, decodeContext: 0, prefills: 1, prefillTokens: 8, prefillContext: 28 };

it('drawn step times follow measured sequences, on each engine separately', () => {
  const prompts = [[1], [2]];
  const decodes = [
    [10, 11, 12],
    [20, 21],
  ];
  const engines = drawnTimes(({ prefills }) => (prefills > 0 ? prompts : decodes), 3);
  const [one, other] = [engines(), engines()];
  const drawn: number[] = [];
  for (let step = 0; step < 300; step++) {
    drawn.push(one(DECODE));
    // Other draws in between make no difference.
    expect([1, 2]).toContain(one(PROMPT));
    other(DECODE);
  }
  expect(new Set(drawn)).toEqual(new Set(decodes.flat()));
  for (const [i, times] of drawn.slice(0, -1).entries()) {
    const after = drawn[i + 1]!;
    if (times === 12 || times === 21) expect([10, 20]).toContain(after);
    else expect(after).toBe(times + 1);
  }
});

it('drawn READ times are the measured ones, in an order that the seed decides', () => {
  const drawn = (seed: number) => Array.from({ length: 60 }, drawnReads([0.5, 1, 4], seed));
  expect(new Set(drawn(1))).toEqual(new Set([0.5, 1, 4]));
  expect(drawn(1)).toEqual(drawn(1));
  expect(drawn(1)).not.toEqual(drawn(2));
  expect(drawnReads(null, 1)()).toBe(1);
});

it("an engine's speed depends on its work (prompts or decoding), not on its role", async () => {
  const step = { fixed_ms: 10, ms_per_decode: 0 };
  const speeds = { prefill: [[1], [0.25]], decode: [[1], [1]] };
  const file = { kvferry_simulation_costs: 1, name: 'test', source: 'assumed', step, speeds };
  const costs = linearCosts(simulationCostsSchema.parse(file));
  const cluster = simulated({ decode: 2, options: { mode: 'monolithic' } }, costs);
  const turn = async (place: number) => {
    const promptTokenIds = Array.from({ length: 40 }, (_, i) => 100 * place + i);
    const request = { conversationId: `c${place}`, promptTokenIds, sampling: { maxTokens: 3 } };
    for await (const { final } of cluster.generate(request)) if (final) return final;
    return null;
  };
  const turns = Promise.all([turn(1), turn(2)]);
  await cluster.run(turns, () => {});
  // Two prompts at a quarter of the speed, then two decode steps each at full speed.
  for (const ended of await turns) expect(ended).toMatchObject({ ttftMs: 40, latencyMs: 60 });
});

it('interruptions delay steps, one after the other, and do not count as computing', () => {
  const clock = new VirtualClock();
  const machine = new Machine(clock, () => 1);
  const ended: [string, number][] = [];
  const step = (what: string, ms: number) =>
    machine.step(ms, () => ended.push([what, clock.now()]), { work: 'decode', context: 0 });
  step('whole', 10);
  clock.at(2, () => machine.interrupt(3));
  clock.at(4, () => machine.interrupt(2));
  clock.at(6, () => step('late', 4));
  clock.at(30, () => machine.interrupt(1));
  clock.at(30.5, () => expect(machine.computing).toBe(false));
  expect(machine.computing).toBe(true);
  while (clock.next());
  expect(ended).toEqual([
    ['late', 6 + 1 + 4],
    ['whole', 10 + 3 + 2],
  ]);
  expect(clock.now()).toBe(31);
});

it.each([
  ['a step', { step: { fixed_ms: 1e300 } }],
  ['what a READ takes from steps', { step: {}, read: { from_steps_ms: 1e300 } }],
])('%s of more than a day is refused, since events in that time would fill the memory', (_what, part) => {
  const file = { kvferry_simulation_costs: 1, name: 'test', source: 'assumed', ...part };
  expect(() => parseSimulationCosts(JSON.stringify(file), 'far.json')).toThrow(
    / in far.json is .*: wanted 86400000 or less/,
  );
});

it.each([
  [
    { speeds: { prefill: [[1]], decode: [[1]], far: { prefill: [[1]], decode: [[1]] } } },
    'speeds.far.from in c.json is not given: wanted a number',
  ],
  [
    { speeds: { prefil: [[1]] } },
    "speeds in c.json has no parameter 'prefil' (did you mean prefill?); it has, defaults first, prefill, decode, far=null",
  ],
  [{ speeds: [1, 2] }, 'speeds.1 in c.json is 2: wanted 1 or less'],
  [{ speeds: 1 }, 'speeds in c.json is 1: wanted a list or an object'],
  [
    { varies: { prompts: [1, 'x'], decodes: [1] } },
    'varies.prompts.1 in c.json is "x": wanted a number or a list',
  ],
  [{ store: { load: {} } }, 'store.save in c.json is not given: wanted an object'],
  [{ source: 'guessed' }, 'source in c.json is "guessed": wanted one of measured, '],
])('costs %j are refused with a message that names what is wrong', (wrong, message) => {
  const costs = { kvferry_simulation_costs: 1, name: 'mine', source: 'assumed', step: {}, ...wrong };
  expect(() => parseSimulationCosts(JSON.stringify(costs), 'c.json')).toThrow(message);
});
