/** How long a lookup waits for the offer that it names. */
import { expect, it } from 'vitest';
import { OfferTracker } from '../../src/store/offer-tracker.ts';
import { settled, TestClock } from '../clock.ts';

async function waits(happens: (seen: OfferTracker, clock: TestClock) => void): Promise<boolean> {
  const clock = new TestClock();
  const seen = new OfferTracker(clock);
  seen.received('p', 2);
  let over = false;
  void seen.until({ engineId: 'p', offer: 4 }).then(() => {
    over = true;
  });
  await settled();
  expect(over).toBe(false);
  happens(seen, clock);
  await settled();
  return !over;
}

it.each<[string, boolean, (seen: OfferTracker, clock: TestClock) => void]>([
  ['until that offer arrives', false, (seen) => seen.received('p', 4)],
  ['until a later offer arrives', false, (seen) => seen.received('p', 5)],
  ['beyond an earlier offer', true, (seen) => seen.received('p', 3)],
  ["beyond another engine's offer", true, (seen) => seen.received('d', 4)],
  ['until its engine is gone', false, (seen) => seen.engineGone('p')],
  ['although another engine is gone', true, (seen) => seen.engineGone('d')],
  ['for one second at most', false, (_, clock) => clock.advance(1_000)],
  ['for more than 999 ms', true, (_, clock) => clock.advance(999)],
])('a lookup waits %s', async (_, still, happens) => {
  expect(await waits(happens)).toBe(still);
});

it('a lookup does not wait for an offer that has arrived; a replaced engine starts counting again', async () => {
  const clock = new TestClock();
  const seen = new OfferTracker(clock);
  seen.received('p', 3);
  seen.received('p', 2);
  await seen.until({ engineId: 'p', offer: 3 });
  await seen.until({ engineId: 'p', offer: 1 });
  expect(clock.skip()).toBe(false);
  seen.engineGone('p');
  const waiting = seen.until({ engineId: 'p', offer: 1 });
  expect(clock.skip()).toBe(true);
  await waiting;
});
