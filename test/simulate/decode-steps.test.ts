/** A row of decode steps ends when its steps, taken one at a time, would. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { StepShape } from '../../src/simulate/costs/types.ts';
import { DecodeSteps } from '../../src/simulate/engines/decode-steps.ts';

const stepMs = ({ decodes, decodeContext }: StepShape): number => 0.1 + 0.3 * decodes + 1e-3 * decodeContext;
const shapeOf = (decodes: number, decodeContext: number): StepShape => {
  return { decodes, decodeContext, prefills: 0, prefillTokens: 0, prefillContext: 0 };
};

const row = fc.record({
  /** Steps taken of the row before; then it continues, another request joins, or it begins later. */
  taken: fc.nat(200),
  change: fc.constantFrom('none', 'none', 'joins', 'later'),
  most: fc.integer({ min: 1, max: 200 }),
  dueAfterMs: fc.option(fc.nat(200)),
});

it('a row of decode steps ends as single steps would, wherever it is interrupted or changed', () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 6 }), (rows) => {
      const steps = new DecodeSteps(stepMs);
      let shape = shapeOf(2, 500);
      let startMs = 3;
      for (const { taken, change, most, dueAfterMs } of rows) {
        const count = Math.min(taken, steps.count);
        if (count > 0) startMs = steps.endOf(count - 1);
        shape = shapeOf(shape.decodes, shape.decodeContext + count * shape.decodes);
        if (change === 'joins') shape = shapeOf(shape.decodes + 1, shape.decodeContext + 40);
        if (change === 'later') startMs += 1;
        const dueMs = dueAfterMs === null ? null : startMs + dueAfterMs;
        steps.plan(startMs, shape, most, dueMs);
        const ends: number[] = [];
        for (let endMs = startMs; ends.length < most && (dueMs === null || endMs < dueMs); ) {
          endMs += stepMs(shapeOf(shape.decodes, shape.decodeContext + ends.length * shape.decodes));
          ends.push(endMs);
        }
        expect(Array.from({ length: steps.count }, (_, i) => steps.endOf(i))).toEqual(ends);
        expect(steps.endMs).toBe(ends.at(-1) ?? startMs);
      }
    }),
  );
});

it('the time of each decode step is computed once, even if its row is interrupted and continued', () => {
  let asked = 0;
  const steps = new DecodeSteps((shape) => {
    asked++;
    return stepMs(shape);
  });
  steps.plan(0, shapeOf(3, 100), 90, null);
  steps.plan(steps.endOf(29), shapeOf(3, 190), 60, null);
  expect(asked).toBe(90);
});
