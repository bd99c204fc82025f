import { expect, it } from 'vitest';
import { Hangs, within } from '../../../src/lab/faults/watch.ts';
import { TestClock } from '../../clock.ts';

it('within() names a call that does not end in time, and returns the result of one that does', async () => {
  const clock = new TestClock();
  const hanging = within(clock, 2000, 'turn 3', new Promise(() => {}));
  const seen = expect(hanging).rejects.toThrow(new Hangs('turn 3 has not ended after 2 s'));
  clock.advance(2000);
  await seen;
  expect(await within(clock, 2000, 'turn 4', Promise.resolve(4))).toBe(4);
});
