import { expect, it } from 'vitest';
import type { MessageFault } from '../../../src/faults/messages.ts';
import type { Fault, Stage } from '../../../src/faults/schedule.ts';
import {
  type HarmedEngine,
  type HarmedFleet,
  type HarmedWires,
  Storm,
} from '../../../src/lab/faults/storm.ts';
import { VirtualClock } from '../../../src/simulate/clock.ts';

/** Wires whose next message meets the fault that was armed last. */
function stormOver() {
  const clock = new VirtualClock();
  const happened: string[] = [];
  let met = () => {};
  const wires: HarmedWires = {
    arm: (_engineId: string, _fault: MessageFault, onMet: () => void) => {
      met = onMet;
    },
    deliverLate: () => happened.push(`late messages at ${clock.now()} ms`),
    heal: () => happened.push('healed'),
  };
  const storm = new Storm(clock, wires);
  let reach = (_stage: Stage) => {};
  const fleet: HarmedFleet = {
    engines: [],
    engine: () => ({ engineId: 'd', ended: null }) as unknown as HarmedEngine,
    revive: async () => 0,
    scaleDown: () => null,
    onStage: (listener) => {
      reach = listener;
    },
  };
  storm.attach(fleet);
  return { clock, happened, storm, message: () => met(), reach: (stage: Stage) => reach(stage) };
}

it('a late message arrives some time after the fault has met it, and other faults stay armed', async () => {
  const { clock, happened, storm, message, reach } = stormOver();
  const fault: Fault = { kind: 'delay', target: 'decode', at: { stage: 'pulling', count: 1 } };
  storm.begin([fault], { leave() {}, fill() {} }, ({ kind }) => happened.push(kind));
  reach('pulling');
  clock.at(500, message);
  while (clock.next()) await Promise.resolve();
  expect(happened).toEqual(['delay', 'late messages at 560 ms']);
});
