import { expect, it } from 'vitest';
import { slowerInWords } from '../../../demo/src/views/format.ts';

it('a little slower is so much slower, and as fast is nothing to say', () => {
  expect([1, 1.02, 0.25].map(slowerInWords)).toEqual([null, null, null]);
  expect([1.27, 1.96, 2.4, 38.2, 1000].map(slowerInWords)).toEqual([
    ...['1.3× slower', '2× slower', '2× slower', '38× slower', '1,000× slower'],
  ]);
});
