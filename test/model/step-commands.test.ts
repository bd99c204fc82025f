/** How a part is cut into portions, and that commands encoded ahead are those of the step that uses them. */
import { expect, it } from 'vitest';
import type { Work } from '../../src/model/pass/stage.ts';
import { portionsOf } from '../../src/model/pass/step-commands.ts';

const works = (count: number): Work[] => Array.from({ length: count }, (_, x) => ({ x }) as Work);

it.each([
  [1, [1]],
  [31, [31]],
  [34, [16, 18]],
  [84, [16, 68]],
  [184, [16, 40, 128]],
  [2000, [16, 40, 100, 250, 625, 969]],
])('cuts %i dispatches into portions that grow, in order', (count, sizes) => {
  const part = works(count);
  const portions = portionsOf(part);
  expect(portions.flat()).toEqual(part);
  expect(portions.map(({ length }) => length)).toEqual(sizes);
});
