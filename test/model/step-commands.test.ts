/** How a part is cut into portions, and that commands encoded ahead are those of the step that uses them. */
import { expect, it } from 'vitest';
import type { Work } from '../../src/model/pass/stage.ts';
import { portionsOf } from '../../src/model/pass/step-commands.ts';

const works = (count: number): Work[] => Array.from({ length: count }, (_, x) => ({ x }) as Work);

it.each([1, 12, 13, 28, 184, 2000])('cuts %i dispatches into portions that grow, in order', (count) => {
  const part = works(count);
  const portions = portionsOf(part);
  expect(portions.flat()).toEqual(part);
  const sizes = portions.map(({ length }) => length);
  expect(sizes[0]).toBeLessThanOrEqual(12);
  expect(Math.min(...sizes)).toBeGreaterThan(0);
  for (const [i, size] of sizes.slice(1, -1).entries()) expect(size).toBeGreaterThan(sizes[i]!);
  expect(sizes.length).toBeLessThanOrEqual(16);
});
