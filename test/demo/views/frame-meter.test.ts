import { expect, it } from 'vitest';
import { FrameMeter } from '../../../demo/src/views/frame-meter.ts';

it('the usual frame time is the median sum of drawings per frame, once there are enough frames', () => {
  const meter = new FrameMeter();
  meter.record(90, 0);
  for (let i = 1; i < 29; i++) meter.record(1, i);
  expect(meter.usualFrame()).toBeNull();
  for (let i = 29; i < 60; i++) {
    meter.record(1, i);
    meter.record(2, i);
  }
  expect(meter.usualFrame()).toEqual({ ms: 3, frames: 60 });
  for (let i = 60; i < 400; i++) meter.record(5, i);
  expect(meter.usualFrame()).toEqual({ ms: 5, frames: 240 });
});
