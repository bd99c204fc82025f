import { expect, test } from 'vitest';
import { buttonLabel } from '../../../demo/src/views/stage/describe-block.ts';

test('the buttons that choose an engine have different labels, also where one does both', () => {
  const engines = ['prefill-0', 'decode-0', 'decode-1.2', 'both-0'];
  expect(engines.map(buttonLabel)).toEqual(['P0', 'D0', 'D1', 'PD0']);
});
