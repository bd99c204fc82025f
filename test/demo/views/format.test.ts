import { expect, it } from 'vitest';
import { slowerInWords } from '../../../demo/src/views/format.ts';

it('slowerInWords gives the factor, and null for almost as fast or faster', () => {
  expect([1, 1.02, 0.25].map(slowerInWords)).toEqual([null, null, null]);
  expect([1.27, 1.96, 2.4, 38.2, 1000].map(slowerInWords)).toEqual([
    ...['1.3× slower', '2× slower', '2× slower', '38× slower', '1,000× slower'],
  ]);
});
