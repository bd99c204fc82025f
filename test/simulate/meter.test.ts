import { expect, it } from 'vitest';
import type { EngineQueues } from '../../src/engine/inspect/engine-load.ts';
import { VirtualClock } from '../../src/simulate/clock.ts';
import { EngineMeter } from '../../src/simulate/engines/meter.ts';

const QUEUES = { running: 2, waiting: 1, waitingForRemote: 0, freeBlocks: 5, numBlocks: 10 };

const pass = (clock: VirtualClock, ms: number): void => {
  clock.after(ms, () => {});
  while (clock.next());
};

it("an engine's figures stop at its end, even if its requests were not removed", () => {
  const clock = new VirtualClock();
  const load = (into: EngineQueues) => Object.assign(into, QUEUES);
  const meter = new EngineMeter('decode-0', clock, { load });
  pass(clock, 10);
  meter.ends();
  const [mean, slices] = [meter.mean(), meter.slices()];
  expect(mean).toMatchObject({ running: 2, waiting: 1, kvUsed: 0.5, busy: 0 });
  expect(slices.at(-1)!.endMs).toBe(10);
  pass(clock, 90);
  meter.update();
  expect(meter.mean()).toEqual(mean);
  expect(meter.slices()).toEqual(slices);
});
