import { expect, it } from 'vitest';
import { plainly } from '../../../demo/src/views/plain-words.ts';

it.each([
  ["decode-0: waits for KV from 'prefill-0'", 'D: waits for KV from P'],
  ['prefill-1 ended: killed', 'P1 ended: killed'],
  ['decode-0.2 did not answer', 'D did not answer'],
  ['chat-10#2.33-d-0123456789abcdef0123456789abcdef was refused', 'turn 2 was refused'],
  ['26 < threshold 32', 'too little to be worth a trip: 26 tokens, and the threshold is 32'],
  ['nothing that it knows', 'nothing that it knows'],
])('%s', (told, plain) => {
  expect(plainly(told)).toBe(plain);
});
