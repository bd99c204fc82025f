/** The conversion of device times to the host's clock. Needs no GPU. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ClockAlignment } from '../../src/gpu/timestamps.ts';

it('clock alignment finds the offset of the device’s clock as closely as its submits allow', () => {
  const submit = fc.record({ gap: fc.nat(50), before: fc.nat(40), length: fc.nat(100), after: fc.nat(40) });
  fc.assert(
    fc.property(
      fc.integer({ min: -1000, max: 1000 }),
      fc.array(submit, { minLength: 1, maxLength: 30, size: 'max' }),
      (offsetMs, submits) => {
        const alignment = new ClockAlignment();
        let now = 0;
        let closest = Number.POSITIVE_INFINITY;
        for (const { gap, before, length, after } of submits) {
          const submittedMs = now + gap;
          const startMs = submittedMs + before;
          const endMs = startMs + length;
          now = endMs + after;
          const ns = (ms: number) => (ms - offsetMs) * 1e6;
          const times = { startNs: ns(startMs), endNs: ns(endMs) };
          alignment.note(times, times, { submittedMs, doneMs: now });
          closest = Math.min(closest, (before + after) / 2);
        }
        expect(alignment.uncertaintyMs).toBeLessThanOrEqual(closest + 1e-6);
        expect(Math.abs(alignment.toHostMs(0) - offsetMs)).toBeLessThanOrEqual(
          alignment.uncertaintyMs + 1e-6,
        );
      },
    ),
  );
});

it('clock alignment starts over when the clocks have drifted apart', () => {
  const alignment = new ClockAlignment();
  const note = (deviceMs: number, hostMs: number) => {
    const times = { startNs: deviceMs * 1e6, endNs: (deviceMs + 1) * 1e6 };
    alignment.note(times, times, { submittedMs: hostMs - 0.5, doneMs: hostMs + 1.5 });
  };
  note(0, 100);
  note(1000, 1105);
  expect(alignment.toHostMs(1000 * 1e6)).toBeCloseTo(1105, 6);
});
