import { expect, it } from 'vitest';
import { beyond, script, secondScript } from '../../../demo/src/session/conversation/suggestions.ts';

it('a greeting or an unknown question gets a hint, and what the shipped model was taught does not', () => {
  for (const line of [...script, ...secondScript, 'Count from 10 to 50.', 'Repeat after me: zorb'])
    expect(beyond('recall', line)).toBeNull();
  for (const line of ['Hello', 'hi there', 'What is the capital of France?'])
    expect(beyond('recall', line)).toContain('Try “My name is Ada.”');
  expect(beyond('tiny', 'Hello')).toBeNull();
});
